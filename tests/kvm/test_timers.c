/* SPDX-License-Identifier: MIT
 *
 * Timers that a guest has set when it is moved: each fires as often as it should, neither less nor
 * more. What KVM itself doubles is allowed where it does so: a local APIC's one-shot timer that had
 * fired, and a PIT, whose count starts anew (KVM_SET_PIT2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_state_guest.h"
#include "vmm/base/clock.h"

/* Until a timer fires: a machine can usually be stopped before, and waiting for it is no waste. */
#define DELAY_MS     200
#define LONGEST_MS   6400
#define MSR_TSC      0x10
#define FAR_TSC      (1ull << 45)
#define SETTLE_MS    60 /* a second interrupt would come at once */
#define PERIOD_MS    20
#define PERIODS      4
#define MORE_PERIODS 5

#define PIT_HZ         1193182u
#define PIT_PERIOD_MS  50
#define PIT_COUNT      (PIT_HZ * PIT_PERIOD_MS / 1000)
#define PIT_RATE       0x34 /* channel 0, both bytes, mode 2 */
#define PIT_ONCE       0x38 /* …, mode 4 */
#define PIT_BY_PIC     0
#define PIT_BY_IO_APIC 1

static struct kvm kvm;

static volatile uint64_t *interrupts(struct machine *machine, unsigned cpu,
                                     enum state_guest_source source)
{
    return &state_guest_mailbox(machine, cpu)->interrupts[source];
}

static uint64_t argument(enum state_guest_job kind, unsigned ms)
{
    return kind == STATE_GUEST_DEADLINE ? (uint64_t)ms * kvm.tsc_khz : ms * CLOCK_NS_PER_MS;
}

/* A guest whose CPU `cpu` takes jobs. */
static struct machine *start(unsigned cpu)
{
    struct machine *machine = state_guest_start(&kvm, cpu + 1);

    if (cpu)
        state_guest_start_cpu(machine, cpu);
    return machine;
}

/* Sets a timer and stops the guest before it fires. Where the host was too slow for that, the next
 * one takes longer. */
static unsigned stop_before(struct machine *machine, enum state_guest_job kind, unsigned cpu)
{
    for (unsigned delay_ms = DELAY_MS; delay_ms <= LONGEST_MS; delay_ms *= 2) {
        volatile uint64_t *count = interrupts(machine, cpu, STATE_GUEST_FROM_TIMER);

        *count = 0;
        state_guest_do(machine, cpu, kind, argument(kind, delay_ms), 0);
        state_guest_pause(machine);
        if (*count == 0)
            return delay_ms;
        state_guest_resume(machine);
    }
    fail_msg("the host cannot stop a guest within %u ms", LONGEST_MS);
    return 0;
}

static void expect_one(struct machine *machine, unsigned cpu)
{
    const volatile uint64_t *count = interrupts(machine, cpu, STATE_GUEST_FROM_TIMER);

    state_guest_await(machine, count, 1);
    state_guest_nap_ms(SETTLE_MS);
    state_guest_await_more(machine, &state_guest_mailbox(machine, cpu)->beats, 3);
    assert_int_equal(*count, 1);
}

/* Fires at the destination. */
static struct machine *fires_there(struct machine *machine, enum state_guest_job kind, unsigned cpu)
{
    (void)stop_before(machine, kind, cpu);
    machine = state_guest_move(&kvm, machine);
    expect_one(machine, cpu);
    return machine;
}

static void moved_before(struct machine *machine, enum state_guest_job kind, unsigned cpu)
{
    state_guest_finish(fires_there(machine, kind, cpu));
}

/* Expires while the guest stands at the source. */
static void expired_between(struct machine *machine, enum state_guest_job kind, unsigned cpu)
{
    unsigned delay_ms = stop_before(machine, kind, cpu);

    state_guest_nap_ms(delay_ms + SETTLE_MS);
    machine = state_guest_move(&kvm, machine);
    expect_one(machine, cpu);
    state_guest_finish(machine);
}

static void test_deadline(void **state)
{
    (void)state;
    moved_before(start(0), STATE_GUEST_DEADLINE, 0);
    moved_before(start(1), STATE_GUEST_DEADLINE, 1);
    expired_between(start(0), STATE_GUEST_DEADLINE, 0);
}

/* A TSC far ahead of a new machine's: the deadline means something only after the TSC is set. (Not
 * every host's kvmclock bears a guest that writes its TSC: the clock is not judged.) */
static void test_deadline_of_far_tsc(void **state)
{
    struct machine *machine = start(0);

    (void)state;
    state_guest_do(machine, 0, STATE_GUEST_WRITE_MSR, MSR_TSC, FAR_TSC);
    machine = fires_there(machine, STATE_GUEST_DEADLINE, 0);
    assert_int_equal(state_guest_mailbox(machine, 0)->early, 0);
    machine_destroy(machine);
}

/* One that has fired is over. */
static void test_deadline_fired(void **state)
{
    struct machine *machine = state_guest_start(&kvm, 1);

    (void)state;
    state_guest_do(machine, 0, STATE_GUEST_DEADLINE, argument(STATE_GUEST_DEADLINE, 1), 0);
    expect_one(machine, 0);
    machine = state_guest_hop(&kvm, machine);
    expect_one(machine, 0);
    state_guest_finish(machine);
}

static void test_one_shot(void **state)
{
    (void)state;
    moved_before(start(0), STATE_GUEST_ONE_SHOT, 0);
    moved_before(start(1), STATE_GUEST_ONE_SHOT, 1);
    expired_between(start(0), STATE_GUEST_ONE_SHOT, 0);
}

/* Ticks before and after a move: they go on, and are no more than time allows. The one that the
 * move itself may add is KVM's. */
static void ticks(struct machine *machine, enum state_guest_source source, unsigned period_ms,
                  uint64_t since_ns)
{
    uint64_t most;

    state_guest_await(machine, interrupts(machine, 0, source), PERIODS);
    machine = state_guest_hop(&kvm, machine);
    state_guest_await_more(machine, interrupts(machine, 0, source), MORE_PERIODS);
    state_guest_pause(machine);
    most = (clock_now_ns() - since_ns) / (period_ms * CLOCK_NS_PER_MS) + 2;
    assert_in_range(*interrupts(machine, 0, source), PERIODS + MORE_PERIODS, most);
    state_guest_resume(machine);
    state_guest_finish(machine);
}

static void test_periodic(void **state)
{
    struct machine *machine = state_guest_start(&kvm, 1);
    uint64_t since_ns = clock_now_ns();

    (void)state;
    state_guest_do(machine, 0, STATE_GUEST_PERIODIC, argument(STATE_GUEST_PERIODIC, PERIOD_MS), 0);
    ticks(machine, STATE_GUEST_FROM_TIMER, PERIOD_MS, since_ns);
}

static void pit_ticks(uint64_t route)
{
    struct machine *machine = state_guest_start(&kvm, 1);
    uint64_t since_ns = clock_now_ns();

    state_guest_do(machine, 0, STATE_GUEST_PIT_ROUTE, route, 0);
    state_guest_do(machine, 0, STATE_GUEST_PIT, PIT_RATE, PIT_COUNT);
    ticks(machine, STATE_GUEST_FROM_PIT, PIT_PERIOD_MS, since_ns);
}

static void test_pit_by_pic(void **state)
{
    (void)state;
    pit_ticks(PIT_BY_PIC);
}

static void test_pit_by_io_apic(void **state)
{
    (void)state;
    pit_ticks(PIT_BY_IO_APIC);
}

/* At most 55 ms: whether it fires before the guest stands, or while it does, it is not lost. */
static void test_pit_once(void **state)
{
    struct machine *machine = state_guest_start(&kvm, 1);

    (void)state;
    for (unsigned nap_ms = 0; nap_ms <= 2 * PIT_PERIOD_MS; nap_ms += 2 * PIT_PERIOD_MS) {
        volatile uint64_t *count = interrupts(machine, 0, STATE_GUEST_FROM_PIT);

        state_guest_do(machine, 0, STATE_GUEST_PIT_ROUTE, PIT_BY_PIC, 0);
        *count = 0;
        state_guest_do(machine, 0, STATE_GUEST_PIT, PIT_ONCE, PIT_COUNT);
        state_guest_pause(machine);
        state_guest_nap_ms(nap_ms);
        machine = state_guest_move(&kvm, machine);
        count = interrupts(machine, 0, STATE_GUEST_FROM_PIT);
        state_guest_await(machine, count, 1);
        state_guest_nap_ms(2 * PIT_PERIOD_MS);
        assert_in_range(*count, 1, 2);
    }
    state_guest_finish(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_deadline_fired),
        cmocka_unit_test(test_deadline_of_far_tsc),
        cmocka_unit_test(test_one_shot),
        cmocka_unit_test(test_periodic),
        cmocka_unit_test(test_pit_by_pic),
        cmocka_unit_test(test_pit_by_io_apic),
        cmocka_unit_test(test_pit_once),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
