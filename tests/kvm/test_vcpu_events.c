/* SPDX-License-Identifier: MIT
 *
 * What is pending at a vCPU when its guest is moved: delivered at the destination, once. */
#include <errno.h>
#include <libfdt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_state_guest.h"

#define CPU1          "/cpu@1"
#define SETTLE_MS     30
#define PAGE_FAULT    14
#define FAULT_ADDRESS 0x12345678u
#define FAULT_ERROR   0x2u
#define VALID_PAYLOAD 0x10u /* KVM_VCPUEVENT_VALID_PAYLOAD */
#define EVENT_FLAGS   "event-flags"
#define TRIPLE_FAULT  "triple-fault"
#define PIT_ONCE      0x38
#define PIT_STOP      0x3a /* mode 5 waits for a gate that channel 0 has not */
#define TRIES         1000
#define PIT_10_MS     11932
#define PIT_BY_PIC    0

static struct kvm kvm;

static struct machine *start_two(void)
{
    struct machine *machine = state_guest_start(&kvm, 2);

    state_guest_start_cpu(machine, 1);
    return machine;
}

/* Nothing more of it comes later. */
static void expect(struct machine *machine, unsigned cpu, const volatile uint64_t *count,
                   uint64_t value)
{
    state_guest_await(machine, count, value);
    state_guest_nap_ms(SETTLE_MS);
    state_guest_await_more(machine, &state_guest_mailbox(machine, cpu)->beats, 2);
    assert_int_equal(*count, value);
}

/* An interrupt while they are off. */
static void test_masked_interrupt(void **state)
{
    struct machine *machine = start_two();
    uint64_t job = state_guest_post(machine, 1, STATE_GUEST_MASK, 0, 0);
    volatile struct state_guest_mailbox *mailbox = state_guest_mailbox(machine, 1);

    (void)state;
    state_guest_await(machine, &mailbox->waits, 1);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, 1, STATE_GUEST_ICR_IPI);
    machine = state_guest_hop(&kvm, machine);
    mailbox = state_guest_mailbox(machine, 1);
    state_guest_await_more(machine, &mailbox->waits, 2);
    assert_int_equal(mailbox->interrupts[STATE_GUEST_FROM_IPI], 0);
    state_guest_release(machine, 1, job);
    expect(machine, 1, &mailbox->interrupts[STATE_GUEST_FROM_IPI], 1);
    state_guest_finish(machine);
}

/* Pauses when the PIC holds its first interrupt. */
static void pause_at_pic(struct machine *machine)
{
    for (unsigned i = 0; i < TRIES; i++) {
        state_guest_pause(machine);
        if (state_guest_saved(machine, "/pic-master", "irr") & 1)
            return;
        state_guest_resume(machine);
        state_guest_nap_ms(1);
    }
    fail_msg("the PIT's interrupt does not come to the PIC");
}

/* … that the PIC holds. CPU 1 stops the timer, which would fire anew at the destination. */
static void test_masked_pic(void **state)
{
    struct machine *machine = start_two();
    volatile struct state_guest_mailbox *mailbox = state_guest_mailbox(machine, 0);
    uint64_t job;

    (void)state;
    state_guest_do(machine, 0, STATE_GUEST_PIT_ROUTE, PIT_BY_PIC, 0);
    job = state_guest_post(machine, 0, STATE_GUEST_MASK, 0, 0);
    state_guest_await(machine, &mailbox->waits, 1);
    state_guest_do(machine, 1, STATE_GUEST_PIT, PIT_ONCE, PIT_10_MS);
    pause_at_pic(machine);
    state_guest_resume(machine);
    state_guest_do(machine, 1, STATE_GUEST_PIT, PIT_STOP, PIT_10_MS);
    machine = state_guest_hop(&kvm, machine);
    mailbox = state_guest_mailbox(machine, 0);
    assert_int_equal(mailbox->interrupts[STATE_GUEST_FROM_PIT], 0);
    state_guest_release(machine, 0, job);
    expect(machine, 0, &mailbox->interrupts[STATE_GUEST_FROM_PIT], 1);
    state_guest_finish(machine);
}

/* One NMI in service, the next pending. */
static void test_nmi(void **state)
{
    struct machine *machine = start_two();
    volatile struct state_guest_mailbox *mailbox = state_guest_mailbox(machine, 1);

    (void)state;
    state_guest_do(machine, 1, STATE_GUEST_HOLD_NMI, 0, 0);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, 1, STATE_GUEST_ICR_NMI);
    state_guest_await(machine, &mailbox->nmis, 1);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, 1, STATE_GUEST_ICR_NMI);
    state_guest_pause(machine);
    assert_int_equal(state_guest_saved(machine, CPU1, "nmi-masked"), 1);
    assert_int_equal(state_guest_saved(machine, CPU1, "nmi-pending"), 1);
    machine = state_guest_move(&kvm, machine);
    mailbox = state_guest_mailbox(machine, 1);
    state_guest_await_more(machine, &mailbox->waits, 2);
    assert_int_equal(mailbox->nmis, 1);
    state_guest_release(machine, 1, mailbox->job);
    expect(machine, 1, &mailbox->nmis, 2);
    state_guest_finish(machine);
}

static void set_cell(void *tree, const char *node, const char *property, uint32_t value)
{
    assert_int_equal(fdt_setprop_u32(tree, fdt_path_offset(tree, node), property, value), 0);
}

static void add_page_fault(void **state, size_t *state_bytes)
{
    void *tree = state_guest_open_tree(state, state_bytes);
    int node = fdt_path_offset(tree, CPU1), bytes;
    const fdt32_t *flags = fdt_getprop(tree, node, EVENT_FLAGS, &bytes);

    assert_non_null(flags);
    set_cell(tree, CPU1, EVENT_FLAGS, fdt32_to_cpu(*flags) | VALID_PAYLOAD);
    set_cell(tree, CPU1, "exception-pending", 1);
    set_cell(tree, CPU1, "exception-nr", PAGE_FAULT);
    set_cell(tree, CPU1, "exception-has-error-code", 1);
    set_cell(tree, CPU1, "exception-error-code", FAULT_ERROR);
    set_cell(tree, CPU1, "exception-has-payload", 1);
    assert_int_equal(
        fdt_setprop_u64(tree, fdt_path_offset(tree, CPU1), "exception-payload", FAULT_ADDRESS), 0);
}

/* An exception that is pending has not put its address into CR2 yet. It goes on with the guest. */
static void test_exception(void **state)
{
    struct machine *machine;
    volatile struct state_guest_mailbox *mailbox;

    (void)state;
    if (!kvm.exception_payload)
        skip();
    machine = start_two();
    state_guest_post(machine, 1, STATE_GUEST_MASK, 0, 0);
    state_guest_await(machine, &state_guest_mailbox(machine, 1)->waits, 1);
    state_guest_pause(machine);
    machine = state_guest_move_changed(&kvm, machine, add_page_fault);
    assert_int_equal(state_guest_saved(machine, CPU1, "exception-pending"), 1);
    assert_int_equal(state_guest_saved(machine, CPU1, "exception-injected"), 0);
    machine = state_guest_move(&kvm, machine);
    mailbox = state_guest_mailbox(machine, 1);
    state_guest_await(machine, &mailbox->faults, 1);
    assert_int_equal(mailbox->fault_address, FAULT_ADDRESS);
    assert_int_equal(mailbox->fault_error, FAULT_ERROR);
    state_guest_release(machine, 1, mailbox->job);
    expect(machine, 1, &mailbox->faults, 1);
    state_guest_finish(machine);
}

static void add_triple_fault(void **state, size_t *state_bytes)
{
    set_cell(state_guest_open_tree(state, state_bytes), CPU1, TRIPLE_FAULT, 1);
}

static void test_triple_fault(void **state)
{
    static struct test_console console;
    struct machine *machine;

    (void)state;
    if (!kvm.triple_fault_event)
        skip();
    machine = start_two();
    state_guest_pause(machine);
    machine = state_guest_move_changed(&kvm, machine, add_triple_fault);
    assert_int_equal(state_guest_saved(machine, CPU1, TRIPLE_FAULT), 1);
    machine = state_guest_move(&kvm, machine);
    assert_int_equal(test_guest_wait_exit(machine, &console)->kind, MACHINE_EXIT_SHUTDOWN);
    assert_non_null(strstr(machine_exit(machine)->reason, "vCPU 1"));
    machine_destroy(machine);
}

/* What a host without the capabilities says to both. */
static void test_lacking_host(void **state)
{
    static test_guest_change *const changes[] = {add_page_fault, add_triple_fault};
    static const char *const lines[] = {"pending exception", "pending triple fault"};
    struct kvm lacking = kvm;
    struct machine *machine = start_two();
    struct error err = {0};
    size_t tree_bytes, bytes;
    const void *tree = machine_fdt(machine, &tree_bytes);
    const struct machine_host host = {.backing = MEMORY_ANON};

    (void)state;
    lacking.exception_payload = lacking.triple_fault_event = false;
    state_guest_pause(machine);
    for (unsigned i = 0; i < 3; i++) {
        struct machine *to;
        void *saved;
        int ret;

        assert_int_equal(machine_create(&to, &lacking, tree, tree_bytes, &host, &err), 0);
        assert_int_equal(machine_save(machine, &saved, &bytes, &err), 0);
        if (i < 2)
            changes[i](&saved, &bytes);
        ret = machine_restore(to, saved, bytes, &err);
        assert_int_equal(ret, i < 2 ? -ENOTSUP : 0); /* nothing pending: welcome */
        if (i < 2 && !strstr(err.text, lines[i]))
            fail_msg("\"%s\" does not say \"%s\"", err.text, lines[i]);
        free(saved);
        machine_destroy(to);
    }
    machine_destroy(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masked_interrupt),
        cmocka_unit_test(test_masked_pic),
        cmocka_unit_test(test_nmi),
        cmocka_unit_test(test_exception),
        cmocka_unit_test(test_triple_fault),
        cmocka_unit_test(test_lacking_host),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
