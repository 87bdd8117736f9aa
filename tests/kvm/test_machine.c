/* SPDX-License-Identifier: MIT
 *
 * A machine from creation to its end, on real KVM. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_guest.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (64 * SIZE_MIB)

static struct kvm kvm;
static struct test_console console;

static int reset_console(void **state)
{
    (void)state;
    memset(&console, 0, sizeof(console));
    return 0;
}

static void test_hello(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "hello", true);
    const struct machine_exit *end;
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    end = test_guest_wait_exit(machine, &console);
    if (end->kind != MACHINE_EXIT_GUEST || end->code != GUEST_EXIT_OK)
        fail_msg("code %u, %s; it said: %s", end->code, end->reason, console.text);
    assert_non_null(strstr(console.text, "hello"));
    assert_int_equal(machine_pause(machine, &err), -ESHUTDOWN);
    assert_int_equal(machine_resume(machine, &err), -ESHUTDOWN);
    machine_destroy(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_hello, reset_console),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
