/* SPDX-License-Identifier: MIT
 *
 * What time a guest thinks it is: what the host does, on every vCPU, before and after a move that
 * took a while; and no clock goes back (state_guest_finish() looks). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_state_guest.h"
#include "vmm/base/clock.h"

#define NCPUS       2
#define BLACKOUT_MS 1500
/* Generous, but a blackout that did not count would show. */
#define SLACK_NS (CLOCK_NS_PER_SEC / 2)

static struct kvm kvm;

static uint64_t realtime_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_SEC + (uint64_t)now.tv_nsec;
}

/* By the wall clock that it once asked for, as a kernel does, and by one that it asks for now. */
static void expect_right_time(struct machine *machine)
{
    for (unsigned cpu = 0; cpu < NCPUS; cpu++) {
        for (unsigned anew = 0; anew < 2; anew++) {
            uint64_t before_ns = realtime_ns();
            uint64_t guest_ns = state_guest_do(machine, cpu, STATE_GUEST_WALL, anew, 0);

            assert_in_range(guest_ns, before_ns - SLACK_NS, realtime_ns() + SLACK_NS);
        }
    }
}

static void test_wall_clock(void **state)
{
    struct machine *machine = state_guest_start(&kvm, NCPUS);

    (void)state;
    state_guest_start_cpu(machine, 1);
    expect_right_time(machine);
    state_guest_pause(machine);
    machine = state_guest_move_slowly(&kvm, machine, BLACKOUT_MS);
    expect_right_time(machine);
    machine = state_guest_hop(&kvm, machine);
    expect_right_time(machine);
    state_guest_finish(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wall_clock),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
