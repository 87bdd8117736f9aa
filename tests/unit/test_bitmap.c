/* SPDX-License-Identifier: MIT
 *
 * The word walker against a loop over bits, for every size around word borders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/base/bitmap.h"

#define MAX_BITS  300
#define MAX_WORDS 6 /* one more than 300 bits need: must never be looked at */

static uint64_t random64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The next run, one bit at a time. */
static bool naive_next_run(const uint64_t *words, uint64_t nbits, uint64_t *position,
                           struct bitmap_run *run)
{
    uint64_t bit = *position;

    while (bit < nbits && !bitmap_test(words, bit))
        bit++;
    run->first = bit;
    while (bit < nbits && bitmap_test(words, bit))
        bit++;
    run->count = bit - run->first;
    *position = bit;
    return run->count != 0;
}

static void check(const uint64_t *words, uint64_t nbits)
{
    uint64_t position = 0;
    uint64_t expected_position = 0;
    uint64_t total = 0;
    struct bitmap_run run;
    struct bitmap_run expected;

    while (naive_next_run(words, nbits, &expected_position, &expected)) {
        assert_true(bitmap_next_run(words, nbits, &position, &run));
        assert_int_equal(run.first, expected.first);
        assert_int_equal(run.count, expected.count);
        total += expected.count;
    }
    assert_false(bitmap_next_run(words, nbits, &position, &run));
    assert_int_equal(position, nbits);
    assert_int_equal(bitmap_count(words, nbits), total);
}

static void walks_patterns(void **state)
{
    static const uint64_t patterns[] = {
        0,
        UINT64_MAX,
        0x5555555555555555ull,
        0xaaaaaaaaaaaaaaaaull,
        0x00000000ffffffffull,
        0xffffffff00000000ull,
        1,
        1ull << 63,
        0x8000000000000001ull,
        0x7ffffffffffffffeull,
    };
    const size_t npatterns = sizeof(patterns) / sizeof(patterns[0]);
    uint64_t words[MAX_WORDS];

    (void)state;
    for (uint64_t nbits = 1; nbits <= MAX_BITS; nbits++) {
        /* Every pair of patterns in turn, so that runs join and end at word borders. */
        for (size_t a = 0; a < npatterns; a++) {
            for (size_t b = 0; b < npatterns; b++) {
                for (size_t i = 0; i < MAX_WORDS; i++)
                    words[i] = patterns[i % 2 ? a : b];
                check(words, nbits);
            }
        }
    }
}

static void walks_random_words(void **state)
{
    uint64_t seed = 0x9e3779b97f4a7c15ull;
    uint64_t words[MAX_WORDS];

    (void)state;
    for (uint64_t nbits = 1; nbits <= MAX_BITS; nbits++) {
        for (int density = 0; density < 5; density++) {
            for (int again = 0; again < 20; again++) {
                for (size_t i = 0; i < MAX_WORDS; i++) {
                    words[i] = random64(&seed);
                    if (density < 2)
                        words[i] &= random64(&seed) & random64(&seed);
                    if (density > 2)
                        words[i] |= random64(&seed) | random64(&seed);
                    if (density % 2 && random64(&seed) % 3 == 0)
                        words[i] = density == 1 ? 0 : UINT64_MAX;
                }
                check(words, nbits);
            }
        }
    }
}

static void sets_and_clears(void **state)
{
    (void)state;
    for (uint64_t first = 0; first < 140; first++) {
        for (uint64_t count = 0; count <= 200 - first; count++) {
            uint64_t words[4] = {0};

            bitmap_set_range(words, first, count);
            assert_int_equal(bitmap_count(words, 256), count);
            if (!count)
                continue;
            assert_true(bitmap_test(words, first));
            assert_true(bitmap_test(words, first + count - 1));
            bitmap_clear(words, first);
            assert_false(bitmap_test(words, first));
            bitmap_set(words, first);
            assert_int_equal(bitmap_count(words, 256), count);
        }
    }
}

static void counts_words(void **state)
{
    (void)state;
    assert_int_equal(bitmap_words(0), 0);
    assert_int_equal(bitmap_words(1), 1);
    assert_int_equal(bitmap_words(64), 1);
    assert_int_equal(bitmap_words(65), 2);
    assert_int_equal(bitmap_words(UINT64_MAX), 1ull << 58);
    assert_int_equal(bitmap_count(NULL, 0), 0);
}

static void takes_marks(void **state)
{
    uint64_t words[2] = {0};

    (void)state;
    bitmap_set_atomic(words, 0);
    bitmap_set_atomic(words, 127);
    assert_int_equal(bitmap_take_word_atomic(&words[0]), 1);
    assert_int_equal(bitmap_take_word_atomic(&words[0]), 0);
    assert_int_equal(bitmap_take_word_atomic(&words[1]), 1ull << 63);
    assert_int_equal(words[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_patterns),  cmocka_unit_test(walks_random_words),
        cmocka_unit_test(sets_and_clears), cmocka_unit_test(counts_words),
        cmocka_unit_test(takes_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
