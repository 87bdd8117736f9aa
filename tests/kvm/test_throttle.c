/* SPDX-License-Identifier: MIT
 *
 * vCPUs that are slowed do less, those that are not do not, a pause waits for none of them, and
 * they all come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_guest.h"
#include "test_times.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (64 * SIZE_MIB)
#define PATIENCE     20

static struct kvm kvm;
static struct test_console console;

/* What each vCPU did in a while. */
static void work_of(struct machine *machine, uint64_t *done)
{
    const volatile struct guest_stats *stats = test_guest_stats(machine);
    const struct timespec a_while = {.tv_nsec = 200 * 1000 * 1000};

    for (unsigned i = 0; i < 2; i++)
        done[i] = stats->cpu[i].work;
    (void)nanosleep(&a_while, NULL);
    for (unsigned i = 0; i < 2; i++)
        done[i] = stats->cpu[i].work - done[i];
}

/* Machines are shared: a measurement that something disturbed is made again. Every try compares
 * with full speed anew. */
static bool slowed(struct machine *machine, unsigned percent)
{
    for (unsigned i = 0; i < PATIENCE; i++) {
        uint64_t full[2], slow[2];

        assert_int_equal(machine_throttle(machine, 0, NULL), 0);
        work_of(machine, full);
        assert_int_equal(machine_throttle(machine, percent, NULL), 0);
        work_of(machine, slow);
        if (full[0] && full[1] && slow[0] < full[0] / 2 && slow[1] < full[1] / 2)
            return true;
    }
    return false;
}

static bool back_at_speed(struct machine *machine)
{
    for (unsigned i = 0; i < PATIENCE; i++) {
        uint64_t slow[2], full[2];

        assert_int_equal(machine_throttle(machine, 90, NULL), 0);
        work_of(machine, slow);
        assert_int_equal(machine_throttle(machine, 0, NULL), 0);
        work_of(machine, full);
        if (full[0] > 2 * slow[0] && full[1] > 2 * slow[1])
            return true;
    }
    return false;
}

static void test_slow_and_back(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 2, MEMORY_BYTES, "memcheck set=4M", true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    test_guest_wait_beats(machine, 2);
    assert_true(slowed(machine, 80));
    assert_true(back_at_speed(machine));
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

/* Also while they rest, which at 99 percent is nearly always; and the guest finds no fault. */
static void test_pauses_while_slow(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 2, MEMORY_BYTES, "memcheck set=4M", true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    test_guest_wait_beats(machine, 1);
    for (unsigned i = 0; i < test_times(100); i++) {
        assert_int_equal(machine_throttle(machine, i % 3 == 2 ? 0 : 99, &err), 0);
        assert_int_equal(machine_pause(machine, &err), 0);
        assert_int_equal(machine_resume(machine, &err), 0);
    }
    assert_int_equal(machine_throttle(machine, 0, &err), 0);
    test_guest_wait_beats(machine, 2);
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

/* Whoever forgets to end it still gets rid of the machine. */
static void test_destroyed_while_slow(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 2, MEMORY_BYTES, "memcheck set=4M", true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    assert_int_equal(machine_throttle(machine, 99, &err), 0);
    machine_destroy(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_and_back),
        cmocka_unit_test(test_pauses_while_slow),
        cmocka_unit_test(test_destroyed_while_slow),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
