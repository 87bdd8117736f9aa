/* SPDX-License-Identifier: MIT
 *
 * A guest hops from machine to machine inside one process and checks itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_guest.h"
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
    for (unsigned i = 0; i < HOPS; i++) {
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

/* Input that is in the UART, its interrupt pending or in service, while the guest moves: echo works
 * by the interrupt alone, so that a lost one is a silence for ever. */
static void test_serial(void **state)
{
    static const char text[] = "abcdefghijklmnop";
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "echo", true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    for (unsigned i = 0; i < HOPS; i++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memcheck_1_vcpu, reset_console),
        cmocka_unit_test_setup(test_memcheck_2_vcpus, reset_console),
        cmocka_unit_test_setup(test_idle, reset_console),
        cmocka_unit_test_setup(test_serial, reset_console),
        cmocka_unit_test_setup(test_blackout, reset_console),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
