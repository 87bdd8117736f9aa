/* SPDX-License-Identifier: MIT
 *
 * The oracle's judge, lied to: every way in which a log can lose a page is seen, and none that is
 * no loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/dirty_oracle_judge.h"
#include "vmm/memory.h"

#define NPAGES 70
#define NCPUS  2

struct fixture {
    struct memory memory;
    struct judge judge;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    const struct memory_region ranges[] = {{.gpa = 0x100000, .npages = 3},
                                           {.gpa = 0x200000, .npages = NPAGES}};

    if (memory_create(&fixture.memory, ranges, 2, MEMORY_ANON, NULL))
        return -1;
    *state = &fixture;
    return judge_open(&fixture.judge, &fixture.memory, 2, NCPUS, NULL);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    judge_close(&f->judge);
    memory_destroy(&f->memory);
    return 0;
}

static void store(struct fixture *f, uint64_t page, size_t offset, uint64_t value)
{
    memcpy(f->memory.region[1].hva + page * MEMORY_PAGE_BYTES + offset, &value, sizeof(value));
}

/* A round in which the log reports the pages of `word` (of 0…63). */
static void report(struct fixture *f, bool quiet, uint64_t word)
{
    uint64_t words[2] = {word, 0};
    uint64_t none[1] = {0};

    judge_round(&f->judge, quiet);
    judge_chunk(&f->judge, 0, 0, 3, none);
    judge_chunk(&f->judge, 1, 0, 64, words);
    judge_chunk(&f->judge, 1, 64, NPAGES - 64, words + 1);
}

static void a_true_log_is_believed(void **state)
{
    struct fixture *f = *state;

    report(f, false, UINT64_MAX);
    store(f, 5, 0, 1);
    report(f, false, 0); /* stored after the fetch: owed */
    report(f, false, 1 << 5);
    store(f, 5, 8, 2);
    store(f, 6, JUDGE_DEVICE_OFFSET, 3);
    report(f, true, 7 << 5); /* one too many */
    judge_copies(&f->judge);
    assert_int_equal(f->judge.lost_pages, 0);
    assert_int_equal(f->judge.reports, 64 + 1 + 3);
}

static void a_debt_must_be_paid_in_the_next_round(void **state)
{
    struct fixture *f = *state;

    report(f, false, 0);
    store(f, 9, 8 * (NCPUS - 1), 1);
    report(f, false, 0);
    assert_int_equal(f->judge.lost_pages, 0);
    report(f, false, 1 << 8);
    assert_int_equal(f->judge.lost_pages, 1);
    assert_int_equal(f->judge.slot, 1);
    assert_int_equal(f->judge.page, 9);
    assert_int_equal(f->judge.lost_round, 3);
    /* Once lost is lost, and counted once; the first stays the first. */
    store(f, 9, 0, 2);
    store(f, 3, 0, 2);
    report(f, false, 0);
    report(f, false, 0);
    assert_int_equal(f->judge.lost_pages, 2);
    assert_int_equal(f->judge.page, 9);
}

static void nothing_is_owed_in_silence(void **state)
{
    struct fixture *f = *state;

    report(f, false, 0);
    store(f, 0, 0, 1);
    store(f, 63, JUDGE_DEVICE_OFFSET, 1);
    report(f, true, 1ull << 63);
    assert_int_equal(f->judge.lost_pages, 1);
    assert_int_equal(f->judge.page, 0);
}

/* Read first and protected later: reported, but with what it held before. */
static void copies_must_be_fresh(void **state)
{
    struct fixture *f = *state;

    store(f, 64, 0, 1);
    report(f, false, 0); /* the page of the last word is owed */
    judge_copies(&f->judge);
    assert_int_equal(f->judge.lost_pages, 1);
    assert_int_equal(f->judge.page, 64);
    store(f, 2, 0, 1);
    report(f, false, 1 << 2);
    store(f, 2, 0, 2);
    judge_copies(&f->judge);
    assert_int_equal(f->judge.lost_pages, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_true_log_is_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_debt_must_be_paid_in_the_next_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_owed_in_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_must_be_fresh, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
