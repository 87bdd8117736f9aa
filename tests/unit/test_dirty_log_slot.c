/* SPDX-License-Identifier: MIT
 *
 * A slot's pending words, claimed in every order, against a plain model: what is pending comes up
 * in exactly one claim, whatever earlier holders left in the words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/base/bitmap.h"
#include "vmm/dirty_log_internal.h"

#define NPAGES (64u * 200 + 5)
#define NWORDS 201
#define JUNK   0xdeadbeefdeadbeefull

static uint64_t random64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

struct fixture {
    struct dirty_log_slot slot;
    uint64_t model[NWORDS]; /* what is pending */
};

static void set_up(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    assert_int_equal(dirty_log_slot_init(&f->slot, NPAGES, NULL), 0);
    bitmap_set_range(f->model, 0, NPAGES);
}

/* Claims, compares with the model, and leaves junk behind. */
static void claim(struct fixture *f, size_t first, size_t count)
{
    uint64_t *words = dirty_log_slot_claim(&f->slot, first, count);

    assert_memory_equal(words, f->model + first, count * sizeof(uint64_t));
    memset(f->model + first, 0, count * sizeof(uint64_t));
    for (size_t i = 0; i < count; i++)
        words[i] = JUNK;
}

/* As a sync does with what the kernel reports. */
static void sync_with(struct fixture *f, const uint64_t *report, bool all)
{
    assert_int_equal(dirty_log_slot_renew(&f->slot), all);
    if (all)
        memcpy(f->slot.pending, report, NWORDS * sizeof(uint64_t));
    for (size_t i = 0; i < NWORDS; i++) {
        f->slot.pending[i] |= report[i];
        f->model[i] |= report[i];
    }
    assert_memory_equal(f->slot.pending, f->model, sizeof(f->model));
}

static void everything_in_order(void **state)
{
    static const uint64_t report[NWORDS] = {[0] = 5, [7] = JUNK, [200] = 31};
    struct fixture f;

    (void)state;
    set_up(&f);
    for (unsigned round = 0; round < 3; round++) {
        for (size_t first = 0; first < NWORDS; first += 67)
            claim(&f, first, 67);
        sync_with(&f, report, true);
    }
    dirty_log_slot_free(&f.slot);
}

static void a_chunk_again(void **state)
{
    static const uint64_t report[NWORDS] = {[3] = 9};
    struct fixture f;

    (void)state;
    set_up(&f);
    claim(&f, 0, 10);
    claim(&f, 0, 10); /* nothing is pending there: not what the first left */
    claim(&f, 5, 10); /* half of it is */
    sync_with(&f, report, false);
    claim(&f, 0, 10);
    dirty_log_slot_free(&f.slot);
}

static void any_order(void **state)
{
    uint64_t report[NWORDS];
    uint64_t seed = 0x9e3779b97f4a7c15ull;
    struct fixture f;

    (void)state;
    set_up(&f);
    for (unsigned round = 0; round < 2000; round++) {
        uint64_t nclaims = random64(&seed) % 12;
        uint64_t covered[NWORDS / BITMAP_WORD_BITS + 1];

        memset(covered, 0, sizeof(covered));
        for (uint64_t i = 0; i < nclaims; i++) {
            size_t first = (size_t)(random64(&seed) % NWORDS);
            size_t count = 1 + (size_t)(random64(&seed) % (NWORDS - first));

            claim(&f, first, count);
            bitmap_set_range(covered, first, count);
        }
        for (size_t i = 0; i < NWORDS; i++)
            report[i] = random64(&seed) & random64(&seed) & (i == NWORDS - 1 ? 31 : UINT64_MAX);
        sync_with(&f, report, bitmap_count(covered, NWORDS) == NWORDS);
    }
    dirty_log_slot_free(&f.slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_in_order),
        cmocka_unit_test(a_chunk_again),
        cmocka_unit_test(any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
