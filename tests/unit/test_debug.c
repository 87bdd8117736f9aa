/* SPDX-License-Identifier: MIT
 *
 * Debug registers as a CPU wants them (SDM volume 3, 17.2.4 and 17.2.5). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/x86/debug.h"

static void test_dr7(void **state)
{
    struct debug_hardware points[DEBUG_NHARDWARE] = {{.used = false}};

    (void)state;
    assert_int_equal(debug_dr7(points), 0);
    points[0] = (struct debug_hardware){true, DEBUG_POINT_EXECUTE, 0x1001, 1};
    assert_int_equal(debug_dr7(points), 0x501);
    points[1] = (struct debug_hardware){true, DEBUG_POINT_WRITE, 0x1008, 8};
    assert_int_equal(debug_dr7(points), 0x900505);
    points[2] = (struct debug_hardware){true, DEBUG_POINT_ACCESS, 0x1004, 4};
    points[3] = (struct debug_hardware){true, DEBUG_POINT_WRITE, 0x1002, 2};
    assert_int_equal(debug_dr7(points), 0x5f900555);
    points[0].used = points[1].used = points[2].used = false;
    assert_int_equal(debug_dr7(points), 0x50000540);
}

static int judge(enum debug_point kind, uint64_t address, uint64_t bytes)
{
    const struct debug_hardware point = {
        .used = true, .kind = kind, .address = address, .bytes = bytes};
    struct error err = {""};
    int ret = debug_check_hardware(&point, &err);

    assert_true(!ret == !err.text[0]);
    return ret;
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(judge(DEBUG_POINT_EXECUTE, 0x1001, 1), 0);
    assert_int_equal(judge(DEBUG_POINT_EXECUTE, 0x1000, 2), -EINVAL);
    for (uint64_t bytes = 1; bytes <= 8; bytes *= 2) {
        assert_int_equal(judge(DEBUG_POINT_WRITE, 0x1000 + bytes, bytes), 0);
        if (bytes > 1)
            assert_int_equal(judge(DEBUG_POINT_WRITE, 0x1000 + bytes / 2, bytes), -EINVAL);
    }
    assert_int_equal(judge(DEBUG_POINT_ACCESS, 0x1000, 0), -EINVAL);
    assert_int_equal(judge(DEBUG_POINT_ACCESS, 0x1000, 3), -EINVAL);
    assert_int_equal(judge(DEBUG_POINT_ACCESS, 0x1000, 16), -EINVAL);
    assert_int_equal(judge(DEBUG_POINT_ACCESS, 0x1000, UINT64_MAX), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dr7),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
