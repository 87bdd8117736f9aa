/* SPDX-License-Identifier: MIT
 *
 * As much of cmocka as the tests use that also run on other architectures, for which there is no
 * package of it. The first assertion that does not hold ends the program. */
#ifndef TESTS_CROSS_CMOCKA_H
#define TESTS_CROSS_CMOCKA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
};

#define cmocka_unit_test(function) \
    {                              \
#function, function        \
    }

static inline void cross_assert(int holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    printf("%s:%d: %s\n", file, line, what);
    exit(1);
}

static inline void cross_assert_equal(uint64_t a, uint64_t b, const char *what, const char *file,
                                      int line)
{
    if (a == b)
        return;
    printf("%s:%d: %s: 0x%llx != 0x%llx\n", file, line, what, (unsigned long long)a,
           (unsigned long long)b);
    exit(1);
}

#define assert_true(condition) cross_assert((condition) != 0, #condition, __FILE__, __LINE__)
#define assert_false(condition) \
    cross_assert((condition) == 0, "!(" #condition ")", __FILE__, __LINE__)
#define assert_non_null(pointer) \
    cross_assert((pointer) != NULL, #pointer " is not NULL", __FILE__, __LINE__)
#define assert_int_equal(a, b) \
    cross_assert_equal((uint64_t)(a), (uint64_t)(b), #a " == " #b, __FILE__, __LINE__)
#define assert_string_equal(a, b) cross_assert(strcmp(a, b) == 0, #a " is " #b, __FILE__, __LINE__)
#define assert_memory_equal(a, b, bytes) \
    cross_assert(memcmp(a, b, bytes) == 0, #a " holds " #b, __FILE__, __LINE__)

#define print_message printf

#define cmocka_run_group_tests(tests, setup, teardown) \
    cross_run(tests, sizeof(tests) / sizeof((tests)[0]))

static inline int cross_run(const struct CMUnitTest *tests, size_t ntests)
{
    for (size_t i = 0; i < ntests; i++) {
        void *state = NULL;

        printf("%s\n", tests[i].name);
        (void)fflush(stdout);
        tests[i].test_func(&state);
    }
    printf("%zu tests passed\n", ntests);
    return 0;
}

#endif
