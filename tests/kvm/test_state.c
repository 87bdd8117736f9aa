/* SPDX-License-Identifier: MIT
 *
 * A guest hops from machine to machine inside one process and checks itself. */
#include <libfdt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_guest.h"
#include "test_times.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (64 * SIZE_MIB)
#define HOPS         12

static struct kvm kvm;
static struct test_console console;

static int reset_console(void **state)
{
    (void)state;
    memset(&console, 0, sizeof(console));
    return 0;
}

static struct machine *hop(struct machine *machine)
{
    struct error err = {0};

    if (machine_pause(machine, &err))
        fail_msg("%s; it said: %s", err.text, console.text);
    machine = test_guest_hop(&kvm, machine, &console);
    assert_int_equal(machine_resume(machine, &err), 0);
    return machine;
}

static void hops(unsigned ncpus, const char *bootargs)
{
    struct machine *machine = test_guest_create(&kvm, ncpus, MEMORY_BYTES, bootargs, true);
    struct error err = {0};

    assert_int_equal(machine_start(machine, &err), 0);
    for (unsigned i = 0; i < test_times(HOPS); i++) {
        test_guest_wait_beats(machine, 3);
        machine = hop(machine);
    }
    test_guest_wait_beats(machine, 3);
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

static void test_memcheck_1_vcpu(void **state)
{
    (void)state;
    hops(1, "memcheck set=16M");
}

static void test_memcheck_2_vcpus(void **state)
{
    (void)state;
    hops(2, "memcheck set=16M");
}

static void test_idle(void **state)
{
    (void)state;
    hops(1, "idle");
}

/* As many vCPUs as there can be, each with a timer of its own. */
static void test_idle_16_vcpus(void **state)
{
    (void)state;
    hops(16, "idle hz=20");
}

/* Input that is in the UART, its interrupt pending or in service, while the guest moves: echo works
 * by the interrupt alone, so that a lost one is a silence for ever. */
static void test_serial(void **state)
{
    static const char text[] = "abcdefghijklmnop";
    /* QEMU's emulated SVM forgets the shadow of `sti` at every exit: an interrupt may then come
     * before the `hlt` that was to wait for it. A tick ends that halt, and brings no input. */
    const char *bootargs = test_times(100) < 100 ? "echo hz=100" : "echo";
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, bootargs, true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    for (unsigned i = 0; i < test_times(HOPS); i++) {
        size_t typed = 0;

        console.bytes = 0;
        while (typed < sizeof(text) - 1) {
            typed += machine_console_give(machine, (const uint8_t *)text + typed,
                                          sizeof(text) - 1 - typed);
            machine = hop(machine);
        }
        assert_true(test_guest_wait_text(machine, &console, text));
    }
    assert_int_equal(machine_console_give(machine, (const uint8_t *)"\n", 1), 1);
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

/* By its own clock the guest sees that it stood still, and its clock never goes back. */
static void test_blackout(void **state)
{
    const struct timespec nap = {.tv_nsec = 300000000};
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "dirty set=1M", true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    test_guest_wait_beats(machine, 3);
    assert_int_equal(machine_pause(machine, &err), 0);
    machine = test_guest_hop_slowly(&kvm, machine, &console, &nap);
    assert_int_equal(machine_resume(machine, &err), 0);
    test_guest_wait_beats(machine, 3);
    assert_true(test_guest_stats(machine)->cpu[0].max_gap_ns > 290000000);
    assert_true(test_guest_stats(machine)->cpu[0].clock_steps == 0);
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

static const void *need(const void *fdt, const char *node, const char *name, int *bytes)
{
    const void *data = fdt_getprop(fdt, fdt_path_offset(fdt, node), name, bytes);

    if (!data)
        fail_msg("%s/%s is missing", node, name);
    return data;
}

static uint64_t get_u64(const void *fdt, const char *node, const char *name)
{
    int bytes;
    const void *data = need(fdt, node, name, &bytes);
    fdt64_t value;

    assert_int_equal(bytes, 8);
    memcpy(&value, data, sizeof(value)); /* properties are aligned to 4 bytes only */
    return fdt64_to_cpu(value);
}

/* Overwrites `count` bytes of a property in place. */
static void poke(void *fdt, const char *node, const char *name, int offset, const void *data,
                 int count)
{
    int bytes;
    uint8_t *at = fdt_getprop_w(fdt, fdt_path_offset(fdt, node), name, &bytes);

    assert_non_null(at);
    assert_true(offset + count <= bytes);
    memcpy(at + offset, data, (size_t)count);
}

static void poke_cell(void *fdt, const char *node, const char *name, int cell, uint32_t value)
{
    fdt32_t be = cpu_to_fdt32(value);

    poke(fdt, node, name, cell * 4, &be, 4);
}

/* State that the guest would not have by itself, so that nothing passes by being zero. */
static void make_peculiar(void *fdt)
{
    static const char pattern[16] = "peculiar pattern";
    uint64_t deadline = get_u64(fdt, "/cpu@0", "tsc") + (1ull << 42);
    const uint8_t components = 3; /* XSTATE_BV: x87 and SSE */
    int bytes;

    poke(fdt, "/cpu@0", "xsave", 160, pattern, 16); /* XMM0 */
    poke(fdt, "/cpu@0", "xsave", 512, &components, 1);
    poke_cell(fdt, "/cpu@0", "db", 1, 0x1234000);
    poke_cell(fdt, "/cpu@0", "r15", 0, 0xdecade);
    poke_cell(fdt, "/cpu@0", "cr2", 1, 0xabc000);
    poke_cell(fdt, "/cpu@0", "nmi-masked", 0, 1);
    poke_cell(fdt, "/pit", "channel-2", 0, 0x4321);
    if (fdt_getprop(fdt, fdt_path_offset(fdt, "/cpu@0"), "tsc-deadline", &bytes)) {
        const uint32_t lvt_deadline = 0x000400ef, svr_on = 0x1ff; /* little-endian in the page */

        poke(fdt, "/cpu@0", "lapic", 0x320, &lvt_deadline, 4);
        poke(fdt, "/cpu@0", "lapic", 0xf0, &svr_on, 4);
        poke_cell(fdt, "/cpu@0", "tsc-deadline", 0, (uint32_t)(deadline >> 32));
        poke_cell(fdt, "/cpu@0", "tsc-deadline", 1, (uint32_t)deadline);
    }
}

/* What goes on while nothing runs. */
static bool is_time(const char *name)
{
    static const char *const names[] = {"tsc",      "tsc-realtime-ns", "tsc-offset",
                                        "clock-ns", "realtime-ns",     "host-tsc"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* A component of XSAVE that is all zeros may be called initial or not (XSTATE_BV); x87 and SSE are
 * not zeros when initial. The components' bytes are compared like all others. */
static uint8_t significant(const char *name, int byte)
{
    if (strcmp(name, "xsave") != 0 || byte < 512 || byte >= 520)
        return 0xff;
    return byte == 512 ? 3 : 0;
}

static void compare(const void *before, const void *after)
{
    int node, property;

    for (node = fdt_next_node(before, -1, NULL); node >= 0;
         node = fdt_next_node(before, node, NULL)) {
        fdt_for_each_property_offset(property, before, node)
        {
            char path[64];
            const char *name;
            int bytes, found;
            const uint8_t *data = fdt_getprop_by_offset(before, property, &name, &bytes);
            const uint8_t *other;

            assert_int_equal(fdt_get_path(before, node, path, sizeof(path)), 0);
            other = need(after, path, name, &found);
            assert_int_equal(found, bytes);
            for (int i = 0; i < bytes && !is_time(name); i++) {
                if ((data[i] ^ other[i]) & significant(name, i))
                    fail_msg("%s/%s differs at byte %d: %02x, %02x", path, name, i, data[i],
                             other[i]);
            }
        }
    }
}

/* Saved, loaded elsewhere and saved again: the same, but for time, which went on. */
static void test_round_trip(void **state)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    struct machine *from = test_guest_create(&kvm, 2, MEMORY_BYTES, "memcheck set=1M", true);
    struct machine *to = test_guest_create(&kvm, 2, MEMORY_BYTES, "memcheck set=1M", false);
    struct error err = {0};
    void *before, *after;
    size_t bytes;

    (void)state;
    assert_int_equal(machine_start(from, &err), 0);
    test_guest_wait_beats(from, 3);
    assert_int_equal(machine_pause(from, &err), 0);
    assert_int_equal(machine_save(from, &before, &bytes, &err), 0);
    make_peculiar(before);
    nanosleep(&nap, NULL);
    if (machine_restore(to, before, bytes, &err))
        fail_msg("%s", err.text);
    assert_int_equal(machine_save(to, &after, &bytes, &err), 0);
    compare(before, after);
    compare(after, before);
    assert_true(get_u64(after, "/clock", "clock-ns") >=
                get_u64(before, "/clock", "clock-ns") + 50000000);
    assert_true(get_u64(after, "/cpu@0", "tsc") > get_u64(before, "/cpu@0", "tsc"));
    free(before);
    free(after);
    machine_destroy(from);
    machine_destroy(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memcheck_1_vcpu, reset_console),
        cmocka_unit_test_setup(test_memcheck_2_vcpus, reset_console),
        cmocka_unit_test_setup(test_idle, reset_console),
        cmocka_unit_test_setup(test_idle_16_vcpus, reset_console),
        cmocka_unit_test_setup(test_serial, reset_console),
        cmocka_unit_test_setup(test_blackout, reset_console),
        cmocka_unit_test(test_round_trip),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
