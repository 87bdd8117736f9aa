/* SPDX-License-Identifier: MIT
 *
 * Windows, overlaps, and accesses that nobody answers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/bus.h"

struct recorder {
    unsigned calls;
    uint64_t offset;
    unsigned bytes;
    bool is_write;
    uint8_t first;
};

static void record(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes, bool is_write)
{
    struct recorder *recorder = opaque;

    recorder->calls++;
    recorder->offset = offset;
    recorder->bytes = bytes;
    recorder->is_write = is_write;
    recorder->first = data[0];
}

static int add(struct bus *bus, enum bus_space space, const char *name, uint64_t start,
               uint64_t bytes, struct recorder *recorder, struct error *err)
{
    const struct bus_window window = {
        .name = name, .start = start, .bytes = bytes, .access = record, .opaque = recorder};

    return bus_add(bus, space, &window, err);
}

static void test_overlap(void **state)
{
    static struct bus bus;
    struct recorder recorder = {0};
    struct error err = {0};

    (void)state;
    bus_init(&bus);
    assert_int_equal(add(&bus, BUS_PORT, "middle", 0x100, 0x10, &recorder, &err), 0);
    assert_int_equal(add(&bus, BUS_PORT, "same", 0x100, 0x10, &recorder, &err), -EEXIST);
    assert_int_equal(add(&bus, BUS_PORT, "inside", 0x104, 1, &recorder, &err), -EEXIST);
    assert_int_equal(add(&bus, BUS_PORT, "around", 0x80, 0x100, &recorder, &err), -EEXIST);
    assert_int_equal(add(&bus, BUS_PORT, "head", 0xff, 2, &recorder, &err), -EEXIST);
    assert_int_equal(add(&bus, BUS_PORT, "tail", 0x10f, 1, &recorder, &err), -EEXIST);
    assert_non_null(strstr(err.text, "tail"));
    assert_non_null(strstr(err.text, "middle"));
    assert_int_equal(add(&bus, BUS_PORT, "before", 0xf0, 0x10, &recorder, &err), 0);
    assert_int_equal(add(&bus, BUS_PORT, "after", 0x110, 1, &recorder, &err), 0);
    assert_int_equal(add(&bus, BUS_MMIO, "other space", 0x100, 0x10, &recorder, &err), 0);
}

static void test_bounds(void **state)
{
    static struct bus bus;
    struct recorder recorder = {0};
    struct error err = {0};

    (void)state;
    bus_init(&bus);
    assert_int_equal(add(&bus, BUS_PORT, "empty", 0x100, 0, &recorder, &err), -EINVAL);
    assert_int_equal(add(&bus, BUS_PORT, "far", 0x10000, 1, &recorder, &err), -EINVAL);
    assert_int_equal(add(&bus, BUS_PORT, "long", 0xfff0, 0x11, &recorder, &err), -EINVAL);
    assert_int_equal(add(&bus, BUS_MMIO, "wraps", UINT64_MAX, 2, &recorder, &err), -EINVAL);
    assert_int_equal(add(&bus, BUS_PORT, "last", 0xffff, 1, &recorder, &err), 0);
    for (unsigned i = 0; i < BUS_MAX_WINDOWS - 1; i++)
        assert_int_equal(add(&bus, BUS_PORT, "one", i, 1, &recorder, &err), 0);
    assert_int_equal(add(&bus, BUS_PORT, "too many", 0x1000, 1, &recorder, &err), -ENOSPC);
}

static void test_dispatch(void **state)
{
    static struct bus bus;
    struct recorder low = {0}, high = {0};
    struct error err = {0};
    uint8_t data[8] = {0x12, 0x34, 0x56, 0x78};

    (void)state;
    bus_init(&bus);
    assert_int_equal(add(&bus, BUS_MMIO, "high", 0x2000, 0x1000, &high, &err), 0);
    assert_int_equal(add(&bus, BUS_MMIO, "low", 0x1000, 0x800, &low, &err), 0);

    bus_access(&bus, BUS_MMIO, 0x17ff, data, 4, true); /* begins inside: the device's business */
    assert_int_equal(low.calls, 1);
    assert_int_equal(low.offset, 0x7ff);
    assert_int_equal(low.bytes, 4);
    assert_true(low.is_write);
    assert_int_equal(low.first, 0x12);

    bus_access(&bus, BUS_MMIO, 0x2000, data, 8, false); /* reads arrive all ones */
    assert_int_equal(high.calls, 1);
    assert_int_equal(high.offset, 0);
    assert_false(high.is_write);
    assert_int_equal(high.first, 0xff);
    assert_int_equal(bus_unmapped_accesses(&bus), 0);
}

static void test_unmapped(void **state)
{
    static const uint64_t nowhere[] = {0, 0xfff, 0x1800, 0x1fff, 0x3000, UINT64_MAX};
    static struct bus bus;
    struct recorder recorder = {0};
    struct error err = {0};

    (void)state;
    bus_init(&bus);
    assert_int_equal(add(&bus, BUS_MMIO, "high", 0x2000, 0x1000, &recorder, &err), 0);
    assert_int_equal(add(&bus, BUS_MMIO, "low", 0x1000, 0x800, &recorder, &err), 0);
    for (unsigned i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        uint8_t data[4] = {0};

        bus_access(&bus, BUS_MMIO, nowhere[i], data, 4, false);
        assert_memory_equal(data, "\xff\xff\xff\xff", 4);
        bus_access(&bus, BUS_MMIO, nowhere[i], data, 4, true);
        assert_int_equal(bus_unmapped_accesses(&bus), 2 * (i + 1));
    }
    assert_int_equal(recorder.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_unmapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
