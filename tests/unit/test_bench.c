/* SPDX-License-Identifier: MIT
 *
 * The pure parts of the benches: lists of numbers, patterns, samples. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench_numbers.h"
#include "tools/bench_pattern.h"
#include "tools/bench_samples.h"

static void expect_numbers(const char *text, const uint64_t *want, unsigned count)
{
    struct bench_numbers numbers;
    struct error err;

    assert_int_equal(bench_numbers_parse(text, &numbers, &err), 0);
    assert_int_equal(numbers.count, count);
    assert_memory_equal(numbers.value, want, count * sizeof(want[0]));
}

static void test_numbers(void **state)
{
    const uint64_t powers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    const uint64_t cut[] = {7, 14, 28, 40};
    const uint64_t whole[] = {5};
    const uint64_t suffix[] = {16384, 262144};
    const uint64_t twice[] = {1, 2, 3, 6, 9, 18, 36};

    (void)state;
    expect_numbers("1,2,4…256", powers, 9);
    expect_numbers("1..256", powers, 9);
    expect_numbers("1,2,4,...,256", powers, 9);
    expect_numbers("1,2,4,…256", powers, 9);
    expect_numbers("7..40", cut, 4);
    expect_numbers("5", whole, 1);
    expect_numbers("16K,256K", suffix, 2);
    expect_numbers("1..3,6,9..36", twice, 7);
}

static void test_bad_numbers(void **state)
{
    static const char *const bad[] = {"",
                                      ",",
                                      "1,",
                                      "1,,2",
                                      "0",
                                      "4,2",
                                      "4,4",
                                      "..8",
                                      "1..",
                                      "8..4",
                                      "x",
                                      "1;2",
                                      "1..x",
                                      "1..2..2",
                                      "-1",
                                      "1…,",
                                      "99999999999999999999999999999999999999999"};
    struct bench_numbers numbers;
    char many[512] = "1";

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {""};

        assert_int_equal(bench_numbers_parse(bad[i], &numbers, &err), -EINVAL);
        assert_true(err.text[0]);
    }
    for (unsigned i = 2; i <= BENCH_NUMBERS_MAX + 1; i++)
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), ",%u", i);
    assert_int_equal(bench_numbers_parse(many, &numbers, NULL), -EINVAL);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void test_patterns(void **state)
{
    static const uint64_t sizes[][2] = {{1, 1},    {64, 64},       {65, 3},          {1000, 999},
                                        {1000, 1}, {262144, 4096}, {262144, 262144}, {100, 33}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t npages = sizes[i][0], count = sizes[i][1];
        uint64_t *pages = calloc(count, sizeof(pages[0]));

        assert_non_null(pages);
        for (unsigned pattern = 0; pattern <= BENCH_PATTERN_RANDOM; pattern++) {
            assert_int_equal(bench_pattern_fill((enum bench_pattern)pattern, npages, pages, count),
                             0);
            if (pattern != BENCH_PATTERN_RANDOM)
                for (uint64_t j = 1; j < count; j++)
                    assert_true(pages[j - 1] < pages[j]);
            qsort(pages, count, sizeof(pages[0]), ascending);
            assert_true(pages[count - 1] < npages);
            for (uint64_t j = 1; j < count; j++)
                assert_true(pages[j - 1] != pages[j]);
        }
        free(pages);
    }
}

static void test_pattern_shapes(void **state)
{
    uint64_t pages[64];

    (void)state;
    assert_int_equal(bench_pattern_fill(BENCH_PATTERN_SPREAD, 1024, pages, 64), 0);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(pages[i], i * 16);
    assert_int_equal(bench_pattern_fill(BENCH_PATTERN_CLUSTER, 1024, pages, 64), 0);
    for (unsigned i = 1; i < 64; i++)
        assert_int_equal(pages[i] - pages[i - 1] == 1, i % BENCH_CLUSTER_PAGES != 0);
}

static void test_samples(void **state)
{
    struct bench_samples samples;
    struct bench_summary summary;

    (void)state;
    assert_int_equal(bench_samples_init(&samples, 200), 0);
    assert_int_equal(bench_samples_summary(&samples).max, 0);
    bench_samples_add(&samples, 7);
    summary = bench_samples_summary(&samples);
    assert_true(summary.min == 7 && summary.median == 7 && summary.p99 == 7 && summary.max == 7);
    bench_samples_add(&samples, 1);
    assert_int_equal(bench_samples_summary(&samples).median, 4);
    samples.count = 0;
    for (uint64_t i = 200; i; i--)
        bench_samples_add(&samples, i);
    summary = bench_samples_summary(&samples);
    assert_true(summary.min == 1 && summary.median == 100 && summary.p99 == 198 &&
                summary.max == 200);
    bench_samples_free(&samples);
}

static void test_names(void **state)
{
    enum bench_pattern pattern;
    struct error err;

    (void)state;
    for (unsigned i = 0; i <= BENCH_PATTERN_RANDOM; i++) {
        assert_int_equal(
            bench_pattern_parse(bench_pattern_name((enum bench_pattern)i), &pattern, &err), 0);
        assert_int_equal(pattern, i);
    }
    assert_int_equal(bench_pattern_parse("spreads", &pattern, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_pattern_shapes),
        cmocka_unit_test(test_samples),  cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
