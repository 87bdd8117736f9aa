/* SPDX-License-Identifier: MIT
 *
 * Sizes, durations, numbers and the range check, at their edges. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/base/size.h"

static void parses_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"64K", 65536},
        {"64k", 65536},
        {"512M", 512ull << 20},
        {"5G", 5ull << 30},
        {"18446744073709551615", UINT64_MAX},
        {"17179869183G", 17179869183ull << 30},
        {"010", 10},
    };
    static const char *const bad[] = {"",
                                      "M",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.5G",
                                      "1KB",
                                      "1GiB",
                                      "0x10",
                                      "1T",
                                      "1 G",
                                      "G1",
                                      "١",
                                      "18446744073709551616",
                                      "17179869184G",
                                      "99999999999999999999999"};
    uint64_t bytes = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(size_parse(good[i].text, &bytes, NULL), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {""};
        assert_int_equal(size_parse(bad[i], &bytes, &err), -EINVAL);
        assert_non_null(strstr(err.text, "512M"));
    }
}

static void parses_durations(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"800ns", 800},        {"250us", 250000}, {"50ms", 50000000},
                {"2s", 2000000000ull}, {"0s", 0},         {"1MS", 1000000}};
    static const char *const bad[] = {"",     "5",  "ms",   "-5ms",
                                      "5 ms", "5m", "1.5s", "18446744073709551615s"};
    uint64_t ns = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(size_parse_duration(good[i].text, &ns, NULL), 0);
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {""};
        assert_int_equal(size_parse_duration(bad[i], &ns, &err), -EINVAL);
        assert_non_null(strstr(err.text, "50ms"));
    }
}

static void parses_numbers(void **state)
{
    static const char *const bad[] = {"",   "x",   "-1",    "0x",
                                      "1 ", "256", "0x100", "99999999999999999999"};
    uint64_t value = 0;

    (void)state;
    assert_int_equal(size_parse_number("0", 255, &value, NULL), 0);
    assert_int_equal(value, 0);
    assert_int_equal(size_parse_number("0xFf", 255, &value, NULL), 0);
    assert_int_equal(value, 255);
    assert_int_equal(size_parse_number("077", 255, &value, NULL), 0);
    assert_int_equal(value, 77);
    assert_int_equal(size_parse_number("0xffffffffffffffff", UINT64_MAX, &value, NULL), 0);
    assert_int_equal(value, UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(size_parse_number(bad[i], 255, &value, NULL), -EINVAL);
}

static void formats(void **state)
{
    char buf[16];

    (void)state;
    assert_string_equal(size_format(0, buf, sizeof(buf)), "0 B");
    assert_string_equal(size_format(1023, buf, sizeof(buf)), "1023 B");
    assert_string_equal(size_format(1ull << 30, buf, sizeof(buf)), "1.0 GiB");
    assert_string_equal(size_format(1536, buf, sizeof(buf)), "1.5 KiB");
    assert_true(strlen(size_format(UINT64_MAX, buf, sizeof(buf))) < sizeof(buf));
    assert_string_equal(size_format_duration(999, buf, sizeof(buf)), "999 ns");
    assert_string_equal(size_format_duration(3420000, buf, sizeof(buf)), "3.42 ms");
    assert_true(strlen(size_format_duration(UINT64_MAX, buf, sizeof(buf))) < sizeof(buf));
}

static void checks_ranges(void **state)
{
    (void)state;
    assert_true(size_range_within(0, 10, 10));
    assert_true(size_range_within(10, 0, 10));
    assert_false(size_range_within(11, 0, 10));
    assert_false(size_range_within(1, 10, 10));
    assert_false(size_range_within(UINT64_MAX, 2, 10));
    assert_false(size_range_within(5, UINT64_MAX, 10));
    assert_true(size_range_within(0, UINT64_MAX, UINT64_MAX));
    assert_false(size_range_within(1, UINT64_MAX, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_sizes),   cmocka_unit_test(parses_durations),
        cmocka_unit_test(parses_numbers), cmocka_unit_test(formats),
        cmocka_unit_test(checks_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
