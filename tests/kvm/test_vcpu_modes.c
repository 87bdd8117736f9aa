/* SPDX-License-Identifier: MIT
 *
 * vCPUs that wait for INIT or SIPI, halt or spin when their guest is moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_state_guest.h"
#include "vmm/base/size.h"

#define CPU1             "/cpu@1"
#define MP_UNINITIALIZED 1 /* KVM_MP_STATE_* */
#define MP_INIT_RECEIVED 2
#define MP_HALTED        3
#define TRIES            1000
#define TIMER_MS         300
#define MANY             16

static struct kvm kvm;

static struct machine *start_two(void)
{
    struct machine *machine = state_guest_start(&kvm, 2);

    state_guest_start_cpu(machine, 1);
    return machine;
}

/* Pauses when CPU 1 has come to this state. */
static void pause_in(struct machine *machine, uint32_t mp_state)
{
    for (unsigned i = 0; i < TRIES; i++) {
        state_guest_pause(machine);
        if (state_guest_saved(machine, CPU1, "mp-state") == mp_state)
            return;
        state_guest_resume(machine);
        state_guest_nap_ms(1);
    }
    fail_msg("CPU 1 does not come to MP state %u", mp_state);
}

static void expect_beats(struct machine *machine, unsigned cpu)
{
    state_guest_await_more(machine, &state_guest_mailbox(machine, cpu)->beats, 3);
}

static void test_uninitialized(void **state)
{
    struct machine *machine = state_guest_start(&kvm, 2);

    (void)state;
    pause_in(machine, MP_UNINITIALIZED);
    machine = state_guest_move(&kvm, machine);
    expect_beats(machine, 0);
    assert_int_equal(state_guest_mailbox(machine, 1)->starts, 0);
    state_guest_start_cpu(machine, 1);
    expect_beats(machine, 1);
    state_guest_finish(machine);
}

static void test_init_received(void **state)
{
    struct machine *machine = start_two();
    volatile struct state_guest_mailbox *mailbox;

    (void)state;
    state_guest_do(machine, 0, STATE_GUEST_PREPARE, 1, 0);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, 1, STATE_GUEST_ICR_INIT);
    pause_in(machine, MP_INIT_RECEIVED);
    machine = state_guest_move(&kvm, machine);
    mailbox = state_guest_mailbox(machine, 1);
    assert_int_equal(mailbox->starts, 1);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, 1, STATE_GUEST_ICR_SIPI);
    state_guest_await(machine, &mailbox->starts, 2);
    expect_beats(machine, 1);
    state_guest_finish(machine);
}

static void test_halted_woken_by_ipi(void **state)
{
    struct machine *machine = start_two();
    uint64_t job = state_guest_post(machine, 1, STATE_GUEST_HALT, 0, 0);
    volatile struct state_guest_mailbox *mailbox;

    (void)state;
    pause_in(machine, MP_HALTED);
    machine = state_guest_move(&kvm, machine);
    mailbox = state_guest_mailbox(machine, 1);
    expect_beats(machine, 0);
    assert_int_equal(mailbox->done, job - 1);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, 1, STATE_GUEST_ICR_IPI);
    state_guest_await(machine, &mailbox->done, job);
    assert_int_equal(mailbox->interrupts[STATE_GUEST_FROM_IPI], 1);
    state_guest_finish(machine);
}

/* Its own timer expires while it stands. */
static void test_halted_woken_by_timer(void **state)
{
    struct machine *machine = start_two();
    uint64_t job;

    (void)state;
    state_guest_do(machine, 1, STATE_GUEST_DEADLINE, (uint64_t)kvm.tsc_khz * TIMER_MS, 0);
    job = state_guest_post(machine, 1, STATE_GUEST_HALT, 0, 0);
    pause_in(machine, MP_HALTED);
    state_guest_nap_ms(TIMER_MS);
    machine = state_guest_move(&kvm, machine);
    state_guest_await(machine, &state_guest_mailbox(machine, 1)->done, job);
    assert_int_equal(state_guest_mailbox(machine, 1)->interrupts[STATE_GUEST_FROM_TIMER], 1);
    state_guest_finish(machine);
}

static void test_spinning(void **state)
{
    struct machine *machine = start_two();

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        expect_beats(machine, 1);
        machine = state_guest_hop(&kvm, machine);
    }
    expect_beats(machine, 1);
    assert_int_equal(state_guest_mailbox(machine, 1)->starts, 1);
    state_guest_finish(machine);
}

/* As many as there can be: all but the first halt, and each is woken. */
static void test_many(void **state)
{
    struct machine *machine = state_guest_start(&kvm, MANY);

    (void)state;
    for (unsigned cpu = 1; cpu < MANY; cpu++) {
        state_guest_start_cpu(machine, cpu);
        state_guest_post(machine, cpu, STATE_GUEST_HALT, 0, 0);
    }
    pause_in(machine, MP_HALTED);
    machine = state_guest_move(&kvm, machine);
    for (unsigned cpu = 1; cpu < MANY; cpu++) {
        state_guest_do(machine, 0, STATE_GUEST_COMMAND, cpu, STATE_GUEST_ICR_IPI);
        state_guest_await(machine, &state_guest_mailbox(machine, cpu)->done, 1);
    }
    machine = state_guest_hop(&kvm, machine); /* all spin */
    expect_beats(machine, MANY - 1);
    state_guest_finish(machine);
}

/* MSRs that KVM keeps for a guest, whether it lists them or not; CPU 1 has values of its own. */
static void test_msrs(void **state)
{
    static const struct {
        uint32_t index;
        uint64_t value;
    } msrs[] = {
        {0x2ff, 0xc06},                   /* MTRR defaults */
        {0x200, 0x80000006},              /* first range's base, */
        {0x201, 0xf80000800},             /* mask */
        {0x26f, 0x0505050505050505},      /* fixed ranges from 0xf8000 on */
        {0x250, 0x0606060606060606},      /* … of the first 512 KiB */
        {0x277, 0x0007040600070106},      /* PAT */
        {0x400, UINT64_MAX},              /* first machine-check bank's CTL */
        {0x404, UINT64_MAX},              /* the next one's */
        {0x174, 0x10},                    /* SYSENTER_CS */
        {0xc0000081, 0x0023001000000000}, /* STAR */
        {0xc0000102, 0x123456789000},     /* KERNEL_GS_BASE */
    };
    struct machine *machine = start_two();

    (void)state;
    for (unsigned i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++)
        state_guest_do(machine, 1, STATE_GUEST_WRITE_MSR, msrs[i].index, msrs[i].value);
    machine = state_guest_hop(&kvm, machine);
    for (unsigned i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
        uint64_t value = state_guest_do(machine, 1, STATE_GUEST_READ_MSR, msrs[i].index, 0);

        if (value != msrs[i].value)
            fail_msg("MSR 0x%x is 0x%llx, was 0x%llx", msrs[i].index, (unsigned long long)value,
                     (unsigned long long)msrs[i].value);
    }
    state_guest_finish(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uninitialized),
        cmocka_unit_test(test_init_received),
        cmocka_unit_test(test_halted_woken_by_ipi),
        cmocka_unit_test(test_halted_woken_by_timer),
        cmocka_unit_test(test_spinning),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_msrs),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
