/* SPDX-License-Identifier: MIT
 *
 * A guest hops from machine to machine inside one process and checks itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memcheck_1_vcpu, reset_console),
        cmocka_unit_test_setup(test_memcheck_2_vcpus, reset_console),
        cmocka_unit_test_setup(test_idle, reset_console),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
