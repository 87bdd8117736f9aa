/* SPDX-License-Identifier: MIT
 *
 * The probe device against guest/abi.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guest/abi.h"
#include "vmm/base/bitmap.h"
#include "vmm/device/probe.h"

#define NPAGES 64

static struct bus bus;
static struct memory memory;
static struct probe probe;

static int set_up(void **state)
{
    const struct memory_region range = {.gpa = 0, .npages = NPAGES};
    struct error err;

    (void)state;
    bus_init(&bus);
    assert_int_equal(memory_create(&memory, &range, 1, MEMORY_ANON, &err), 0);
    assert_int_equal(probe_init(&probe, &bus, &memory, &err), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    probe_destroy(&probe);
    memory_destroy(&memory);
    return 0;
}

static uint32_t in(enum bus_space space, unsigned reg)
{
    uint32_t value = 0;

    bus_access(&bus, space, (space == BUS_PORT ? PROBE_PORT : PROBE_MMIO) + reg, (uint8_t *)&value,
               4, false);
    return value;
}

static void out(enum bus_space space, unsigned reg, uint32_t value)
{
    bus_access(&bus, space, (space == BUS_PORT ? PROBE_PORT : PROBE_MMIO) + reg, (uint8_t *)&value,
               4, true);
}

static void test_count(void **state)
{
    (void)state;
    assert_int_equal(in(BUS_PORT, PROBE_REG_COUNT), 0);
    assert_int_equal(in(BUS_PORT, PROBE_REG_COUNT), 1);
    out(BUS_PORT, PROBE_REG_COUNT, 0xdead);
    assert_int_equal(in(BUS_PORT, PROBE_REG_PEEK), 3);
    assert_int_equal(in(BUS_PORT, PROBE_REG_PEEK), 3);
    assert_int_equal(in(BUS_MMIO, PROBE_REG_PEEK), 0); /* a counter of its own */
    out(BUS_MMIO, PROBE_REG_COUNT, 0);
    assert_int_equal(in(BUS_MMIO, PROBE_REG_COUNT), 1);
}

static void test_odd_accesses(void **state)
{
    uint8_t data[8] = {0};

    (void)state;
    bus_access(&bus, BUS_PORT, PROBE_PORT, data, 1, true);
    bus_access(&bus, BUS_MMIO, PROBE_MMIO, data, 8, true);
    assert_int_equal(in(BUS_PORT, PROBE_REG_PEEK), 0);
    assert_int_equal(in(BUS_MMIO, PROBE_REG_PEEK), 0);
    bus_access(&bus, BUS_MMIO, PROBE_MMIO, data, 8, false);
    assert_int_equal(data[7], 0xff);
    assert_true(in(BUS_MMIO, 0x100) == UINT32_MAX);
}

static void test_stamp(void **state)
{
    uint64_t words[2];

    (void)state;
    out(BUS_PORT, PROBE_REG_STAMP, 5);
    out(BUS_MMIO, PROBE_REG_STAMP, 7);
    assert_int_equal(in(BUS_PORT, PROBE_REG_STAMPED), 2);
    assert_int_equal(memory_read(&memory, 5 * 4096, words, sizeof(words)), 0);
    assert_true(words[0] == 1 && words[1] == ~1ull);
    assert_int_equal(memory_read(&memory, 7 * 4096, words, sizeof(words)), 0);
    assert_true(words[0] == 2 && words[1] == ~2ull);
    /* KVM's log does not see these stores: the VMM's own does. */
    assert_int_equal(bitmap_count(memory.region[0].vmm_dirty, NPAGES), 2);
    assert_true(bitmap_test(memory.region[0].vmm_dirty, 5));
    assert_true(bitmap_test(memory.region[0].vmm_dirty, 7));
}

static void test_stamp_outside_ram(void **state)
{
    (void)state;
    out(BUS_PORT, PROBE_REG_STAMP, NPAGES);
    out(BUS_PORT, PROBE_REG_STAMP, UINT32_MAX);
    assert_int_equal(probe.refused, 2);
    assert_int_equal(bitmap_count(memory.region[0].vmm_dirty, NPAGES), 0);
}

static void test_state(void **state)
{
    struct state_writer writer;
    struct state_reader root;
    struct error err = {0};
    size_t bytes;
    void *fdt;

    (void)state;
    out(BUS_PORT, PROBE_REG_COUNT, 0);
    out(BUS_MMIO, PROBE_REG_COUNT, 0);
    out(BUS_MMIO, PROBE_REG_COUNT, 0);
    out(BUS_PORT, PROBE_REG_STAMP, 1);
    assert_int_equal(state_writer_begin(&writer, "test", &err), 0);
    probe_save(&probe, &writer);
    assert_int_equal(state_writer_finish(&writer, &fdt, &bytes, &err), 0);
    (void)tear_down(NULL);
    (void)set_up(NULL);
    assert_int_equal(state_open(&root, fdt, bytes, "test", &err), 0);
    assert_int_equal(probe_load(&probe, &root, &err), 0);
    assert_int_equal(in(BUS_PORT, PROBE_REG_PEEK), 1);
    assert_int_equal(in(BUS_MMIO, PROBE_REG_PEEK), 2);
    assert_int_equal(in(BUS_MMIO, PROBE_REG_STAMPED), 1);
    free(fdt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_accesses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stamp, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stamp_outside_ram, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_state, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
