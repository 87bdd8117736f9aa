/* SPDX-License-Identifier: MIT
 *
 * Quantiles are what sorting would give, to within a sixteenth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/histogram.h"

#define VALUES 19999

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void test_quantiles(void **state)
{
    static const unsigned permilles[] = {1, 100, 500, 900, 990, 999, 1000};
    struct histogram histogram = {.count = 0};
    uint64_t *values = calloc(VALUES, sizeof(*values));
    unsigned seed = 5;

    (void)state;
    assert_non_null(values);
    for (unsigned i = 0; i < VALUES; i++) {
        values[i] =
            ((uint64_t)rand_r(&seed) << 16 | (uint64_t)rand_r(&seed) % 65536) >> rand_r(&seed) % 46;
        values[i] &= (1ull << 36) - 1;
        histogram_add(&histogram, values[i]);
    }
    qsort(values, VALUES, sizeof(*values), by_size);
    for (unsigned i = 0; i < sizeof(permilles) / sizeof(permilles[0]); i++) {
        uint64_t exact = values[((uint64_t)VALUES * permilles[i] + 999) / 1000 - 1];
        uint64_t told = histogram_quantile(&histogram, permilles[i]);

        if (told < exact || told > exact + exact / 16 + 1)
            fail_msg("%u/1000: %llu for %llu", permilles[i], (unsigned long long)told,
                     (unsigned long long)exact);
    }
    assert_int_equal(histogram_quantile(&histogram, 1000), values[VALUES - 1]);
    assert_int_equal(histogram.count, VALUES);
    free(values);
}

static void test_ends(void **state)
{
    struct histogram histogram = {.count = 0};

    (void)state;
    assert_int_equal(histogram_quantile(&histogram, 500), 0);
    histogram_add(&histogram, 0);
    assert_int_equal(histogram_quantile(&histogram, 1000), 0);
    histogram_add(&histogram, UINT64_MAX);
    assert_int_equal(histogram.max_ns, UINT64_MAX);
    assert_true(histogram_quantile(&histogram, 1000) >= (1ull << 36) - 1);
    for (uint64_t ns = 1; ns < 32; ns++) { /* exact where they are small */
        struct histogram one = {.count = 0};

        histogram_add(&one, ns);
        assert_int_equal(histogram_quantile(&one, 500), ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantiles),
                                       cmocka_unit_test(test_ends)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
