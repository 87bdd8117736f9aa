/* SPDX-License-Identifier: MIT
 *
 * Every way of walking a bitmap that this CPU has against a loop over bits: sizes around word and
 * block borders, bits past the end, runs over word and batch borders, many densities, buffers at
 * every address a word may have. The words beyond a buffer's end must stay as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/base/bitmap_path.h"

#define MAX_WORDS 210u /* three blocks and some more */
#define MAX_BITS  (MAX_WORDS * 64u)
#define CANARY    0xfeedfacecafebeefull

static uint64_t random64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t below(uint64_t *state, uint64_t limit)
{
    return random64(state) % limit;
}

/* Fills all words, those past the end too, in one of several manners. */
static void fill(uint64_t *words, unsigned manner, uint64_t *seed)
{
    const uint64_t nbits = MAX_BITS;

    memset(words, manner == 1 ? 0xff : 0, MAX_WORDS * sizeof(words[0]));
    switch (manner) {
    case 0: /* empty */
    case 1: /* full */
        break;
    case 2: /* half */
        for (unsigned i = 0; i < MAX_WORDS; i++)
            words[i] = random64(seed);
        break;
    case 3: /* few single pages */
        for (unsigned i = 0; i < 20; i++)
            bitmap_set(words, below(seed, nbits));
        break;
    case 4: /* a tenth */
        for (unsigned i = 0; i < nbits / 10; i++)
            bitmap_set(words, below(seed, nbits));
        break;
    case 5: /* long runs */
        for (unsigned i = 0; i < 12; i++) {
            uint64_t first = below(seed, nbits);

            bitmap_set_range(words, first, below(seed, nbits - first < 700 ? nbits - first : 700));
        }
        break;
    case 6: /* runs of words: every edge at a border */
        for (unsigned i = 0; i < MAX_WORDS; i++)
            words[i] = below(seed, 4) ? UINT64_MAX : 0;
        break;
    case 7: /* runs of what is skipped as one */
        for (unsigned i = 0; i < MAX_WORDS; i++)
            words[i] = i % 32 ? words[i - 1] : below(seed, 2) ? UINT64_MAX : 0;
        break;
    case 8: /* full but for a few */
        memset(words, 0xff, MAX_WORDS * sizeof(words[0]));
        for (unsigned i = 0; i < 20; i++)
            bitmap_clear(words, below(seed, nbits));
        break;
    default: /* as many edges as there can be */
        for (unsigned i = 0; i < MAX_WORDS; i++)
            words[i] = manner == 9 ? 0x5555555555555555ull : 0xaaaaaaaaaaaaaaaaull;
        break;
    }
}

#define MANNERS 11u

/* The next run at or after bit, one bit at a time; false at the end. */
static bool naive_run(const uint64_t *words, uint64_t nbits, uint64_t bit, struct bitmap_run *run)
{
    while (bit < nbits && !bitmap_test(words, bit))
        bit++;
    run->first = bit;
    while (bit < nbits && bitmap_test(words, bit))
        bit++;
    run->count = bit - run->first;
    return run->count != 0;
}

static void check_runs(const struct bitmap_path *path, const uint64_t *words, uint64_t nbits,
                       uint64_t from, size_t max)
{
    struct bitmap_run *runs = malloc((max + 1) * sizeof(runs[0]));
    struct bitmap_run expected = {.first = from, .count = 0};
    uint64_t position = from;
    size_t n;

    assert_non_null(runs);
    runs[max] = (struct bitmap_run){.first = CANARY, .count = CANARY};
    while ((n = path->runs(words, nbits, &position, runs, max)) > 0) {
        assert_true(n <= max);
        for (size_t i = 0; i < n; i++) {
            assert_true(naive_run(words, nbits, expected.first + expected.count, &expected));
            assert_int_equal(runs[i].first, expected.first);
            assert_int_equal(runs[i].count, expected.count);
        }
        assert_true(position >= expected.first + expected.count);
    }
    assert_false(naive_run(words, nbits, expected.first + expected.count, &expected));
    assert_int_equal(position, from < nbits ? nbits : from);
    assert_int_equal(runs[max].first, CANARY);
    free(runs);
}

static void check_pages(const struct bitmap_path *path, const uint64_t *words, uint64_t nbits,
                        uint64_t from, size_t max)
{
    uint64_t *pages = malloc((max + 1) * sizeof(pages[0]));
    uint64_t position = from;
    uint64_t bit = from;
    size_t n;

    assert_non_null(pages);
    pages[max] = CANARY;
    while ((n = path->pages(words, nbits, &position, pages, max)) > 0) {
        assert_true(n <= max);
        for (size_t i = 0; i < n; i++) {
            while (bit < nbits && !bitmap_test(words, bit))
                bit++;
            assert_int_equal(pages[i], bit++);
        }
        assert_true(position >= bit);
    }
    for (; bit < nbits; bit++)
        assert_false(bitmap_test(words, bit));
    assert_int_equal(position, from < nbits ? nbits : from);
    assert_int_equal(pages[max], CANARY);
    free(pages);
}

static void check_sums(const struct bitmap_path *path, const uint64_t *words, uint64_t nbits)
{
    uint64_t count = 0;

    for (uint64_t bit = 0; bit < nbits; bit++)
        count += bitmap_test(words, bit);
    assert_int_equal(path->count(words, nbits), count);
    assert_int_equal(path->any(words, nbits), count != 0);
}

static void check_walks(const struct bitmap_path *path, const uint64_t *words, uint64_t nbits,
                        uint64_t *seed)
{
    static const size_t rooms[] = {1, 2, 3, 31, 32, 33, 34, 63, 64, 65, 100, BITMAP_PAGES_BATCH};
    const size_t nrooms = sizeof(rooms) / sizeof(rooms[0]);
    uint64_t from = below(seed, nbits + 2);

    check_sums(path, words, nbits);
    check_runs(path, words, nbits, 0, BITMAP_RUNS_BATCH);
    check_pages(path, words, nbits, 0, BITMAP_PAGES_BATCH);
    check_runs(path, words, nbits, from, rooms[below(seed, nrooms)]);
    check_pages(path, words, nbits, from, rooms[below(seed, nrooms)]);
}

/* Calls visit for each path of this CPU, which must be one at least. */
static void for_each_path(void (*visit)(const struct bitmap_path *path))
{
    const struct bitmap_path *path;

    for (unsigned i = 0; (path = bitmap_path_at(i)); i++) {
        if (path->supported())
            visit(path);
        else
            print_message("this CPU has no %s: not tested\n", path->name);
    }
}

/* One bitmap of each manner. It lies right before the end of its allocation, so that a sanitizer
 * sees a read past it. */
static void walk_size(const struct bitmap_path *path, uint64_t nbits, uint64_t *seed)
{
    size_t nwords = bitmap_words(nbits);
    uint64_t filled[MAX_WORDS];
    uint64_t *words = malloc(nwords * sizeof(words[0]));

    assert_non_null(words);
    for (unsigned manner = 0; manner < MANNERS; manner++) {
        fill(filled, manner, seed);
        memcpy(words, filled, nwords * sizeof(words[0]));
        check_walks(path, words, nbits, seed);
    }
    free(words);
}

/* Every size up to a few words, then those around the borders of words and of blocks. */
static void walk_sizes(const struct bitmap_path *path)
{
    uint64_t seed = 0x9e3779b97f4a7c15ull;

    for (uint64_t nbits = 1; nbits < 200; nbits++)
        walk_size(path, nbits, &seed);
    for (unsigned nwords = 3; nwords < MAX_WORDS; nwords += nwords % 8 == 2 ? 5 : 1) {
        walk_size(path, nwords * 64u, &seed);
        walk_size(path, nwords * 64u + 1, &seed);
        walk_size(path, nwords * 64u + 1 + below(&seed, 63), &seed);
        walk_size(path, nwords * 64u + 63, &seed);
    }
}

static void walks_every_size(void **state)
{
    (void)state;
    for_each_path(walk_sizes);
}

/* The whole array of positions, batch sizes and addresses on one bitmap of each manner. */
static void walk_batches(const struct bitmap_path *path)
{
    uint64_t seed = 0x2545f4914f6cdd1dull;
    uint64_t *filled = malloc((MAX_WORDS + 8) * sizeof(filled[0]));

    assert_non_null(filled);
    for (unsigned manner = 0; manner < MANNERS; manner++) {
        for (size_t shift = 0; shift < 8; shift++) {
            uint64_t *words = filled + shift;

            fill(words, manner, &seed);
            for (size_t max = 1; max < 80; max += max < 5 ? 1 : 7) {
                uint64_t nbits = MAX_BITS - below(&seed, 4500);

                check_runs(path, words, nbits, below(&seed, nbits), max);
                check_pages(path, words, nbits, below(&seed, nbits), max);
            }
        }
    }
    free(filled);
}

static void walks_in_every_batch(void **state)
{
    (void)state;
    for_each_path(walk_batches);
}

static void merge(const struct bitmap_path *path)
{
    uint64_t seed = 0x853c49e6748fea9bull;
    uint64_t a[MAX_WORDS + 1], b[MAX_WORDS + 1], merged[MAX_WORDS + 1];

    for (unsigned again = 0; again < 3000; again++) {
        uint64_t nbits = below(&seed, again % 2 ? 700 : MAX_BITS) + again % 3;
        size_t nwords = bitmap_words(nbits = nbits > MAX_BITS ? MAX_BITS : nbits);

        fill(a, (unsigned)below(&seed, MANNERS), &seed);
        fill(b, (unsigned)below(&seed, MANNERS), &seed);
        a[nwords] = merged[nwords] = CANARY;
        for (size_t i = 0; i < nwords; i++)
            merged[i] = a[i] | b[i];
        assert_int_equal(path->merge(a, b, nbits), bitmap_path_scalar.count(merged, nbits));
        assert_memory_equal(a, merged, (nwords + 1) * sizeof(a[0]));
    }
}

static void merges(void **state)
{
    (void)state;
    for_each_path(merge);
}

static void walk_nothing(const struct bitmap_path *path)
{
    struct bitmap_run run;
    uint64_t word = UINT64_MAX, page, position = 0;

    assert_int_equal(path->count(NULL, 0), 0);
    assert_false(path->any(NULL, 0));
    assert_int_equal(path->runs(NULL, 0, &position, &run, 1), 0);
    assert_int_equal(path->pages(NULL, 0, &position, &page, 1), 0);
    assert_int_equal(path->merge(&word, &word, 0), 0);
    assert_int_equal(word, UINT64_MAX);
}

static void walks_nothing(void **state)
{
    (void)state;
    for_each_path(walk_nothing);
}

/* What callers get without naming a path. */
static void chooses_a_path(void **state)
{
    struct bitmap_run runs[BITMAP_RUNS_BATCH];
    uint64_t pages[BITMAP_PAGES_BATCH];
    uint64_t words[2] = {1ull << 63, 7}, out[2], position = 0;

    (void)state;
    assert_true(bitmap_path_best()->supported());
    assert_int_equal(bitmap_runs(words, 66, &position, runs, BITMAP_RUNS_BATCH), 1);
    assert_int_equal(runs[0].first, 63);
    assert_int_equal(runs[0].count, 3);
    position = 0;
    assert_int_equal(bitmap_path_best()->pages(words, 66, &position, pages, BITMAP_PAGES_BATCH), 3);
    assert_int_equal(pages[2], 65);
    assert_int_equal(bitmap_count(words, 66), 3);
    assert_true(bitmap_any(words, 64));
    assert_false(bitmap_any(words, 63));
    out[0] = out[1] = 0;
    assert_int_equal(bitmap_merge(out, words, 66), 3);
}

/* KVM's bytes, whatever the host: bit n of byte m is page 8 m + n. */
static void reads_little_endian(void **state)
{
    uint8_t bytes[16] = {0x01, 0x80, 0, 0, 0, 0, 0, 0x40, 0x02};
    uint64_t words[2];

    (void)state;
    memcpy(words, bytes, sizeof(words));
    bitmap_from_le(words, 2);
    assert_int_equal(words[0], 0x4000000000008001ull);
    assert_int_equal(words[1], 2);
    assert_true(bitmap_test(words, 0) && bitmap_test(words, 15));
    assert_true(bitmap_test(words, 62) && bitmap_test(words, 65));
    bitmap_to_le(words, 2);
    assert_memory_equal(words, bytes, sizeof(bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_every_size), cmocka_unit_test(walks_in_every_batch),
        cmocka_unit_test(merges),           cmocka_unit_test(walks_nothing),
        cmocka_unit_test(chooses_a_path),   cmocka_unit_test(reads_little_endian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
