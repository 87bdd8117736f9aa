/* SPDX-License-Identifier: MIT
 *
 * A guest that does nothing but accesses which each must count once, moved again and again: a vCPU
 * that is saved while it owes KVM the completion of an access loses or doubles one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_guest.h"
#include "test_times.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (16 * SIZE_MIB)
#define HOPS         40

static struct kvm kvm;
static struct test_console console;

static int reset_console(void **state)
{
    (void)state;
    memset(&console, 0, sizeof(console));
    return 0;
}

static void hop_counter(unsigned ncpus, const char *bootargs)
{
    struct machine *machine = test_guest_create(&kvm, ncpus, MEMORY_BYTES, bootargs, true);
    const unsigned hops = test_times(HOPS);
    struct error err = {0};

    assert_int_equal(machine_start(machine, &err), 0);
    for (unsigned i = 0; i < hops && machine_state(machine) == MACHINE_RUNNING; i++) {
        test_guest_wait_beats(machine, 2);
        if (machine_pause(machine, &err))
            break; /* it found a fault: test_guest_finish() says which */
        machine = test_guest_hop(&kvm, machine, &console);
        assert_int_equal(machine_resume(machine, &err), 0);
    }
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

static void test_ports(void **state)
{
    (void)state;
    hop_counter(1, "counter window=port string=no");
}

static void test_strings(void **state)
{
    (void)state;
    hop_counter(1, "counter window=port");
}

static void test_mmio(void **state)
{
    (void)state;
    hop_counter(1, "counter window=mmio");
}

static void test_both(void **state)
{
    (void)state;
    hop_counter(2, "counter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ports, reset_console),
        cmocka_unit_test_setup(test_strings, reset_console),
        cmocka_unit_test_setup(test_mmio, reset_console),
        cmocka_unit_test_setup(test_both, reset_console),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
