/* SPDX-License-Identifier: MIT
 *
 * Driving the state guest from outside. */
#include "test_state_guest.h"

#include <libfdt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>

#include "vmm/base/clock.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (16 * SIZE_MIB)
#define ROOM         4096

extern const uint8_t state_guest_image[], state_guest_image_end[];

static struct test_console console;

static void must(int ret, const struct error *err)
{
    if (ret)
        fail_msg("%d: %s", ret, err->text);
}

volatile struct state_guest_mailbox *state_guest_mailbox(struct machine *machine, unsigned cpu)
{
    const gpa_t at = STATE_GUEST_GPA + cpu * sizeof(struct state_guest_mailbox);
    void *mailbox = memory_at(machine_memory(machine), at, sizeof(struct state_guest_mailbox));

    assert_non_null(mailbox);
    return mailbox;
}

struct machine *state_guest_start(const struct kvm *kvm, unsigned ncpus)
{
    struct machine *machine = test_guest_create(kvm, ncpus, MEMORY_BYTES, "", false);
    struct machine_boot boot = {
        .kernel = {.name = "state_guest",
                   .data = state_guest_image,
                   .bytes = (size_t)(state_guest_image_end - state_guest_image)},
        .load_address = MACHINE_LOAD_BY_IMAGE};
    struct error err = {0};

    must(machine_load(machine, &boot, &err), &err);
    must(machine_start(machine, &err), &err);
    state_guest_await(machine, &state_guest_mailbox(machine, 0)->starts, 1);
    return machine;
}

void state_guest_start_cpu(struct machine *machine, unsigned cpu)
{
    const volatile uint64_t *starts = &state_guest_mailbox(machine, cpu)->starts;
    uint64_t before = *starts;

    state_guest_do(machine, 0, STATE_GUEST_PREPARE, cpu, 0);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, cpu, STATE_GUEST_ICR_INIT);
    state_guest_do(machine, 0, STATE_GUEST_COMMAND, cpu, STATE_GUEST_ICR_SIPI);
    state_guest_await(machine, starts, before + 1);
}

uint64_t state_guest_post(struct machine *machine, unsigned cpu, enum state_guest_job kind,
                          uint64_t a, uint64_t b)
{
    volatile struct state_guest_mailbox *mailbox = state_guest_mailbox(machine, cpu);
    uint64_t job = mailbox->job + 1;

    mailbox->kind = kind;
    mailbox->a = a;
    mailbox->b = b;
    __atomic_store_n(&mailbox->job, job, __ATOMIC_RELEASE);
    return job;
}

uint64_t state_guest_do(struct machine *machine, unsigned cpu, enum state_guest_job kind,
                        uint64_t a, uint64_t b)
{
    uint64_t job = state_guest_post(machine, cpu, kind, a, b);

    state_guest_await(machine, &state_guest_mailbox(machine, cpu)->done, job);
    return state_guest_mailbox(machine, cpu)->result;
}

void state_guest_release(struct machine *machine, unsigned cpu, uint64_t job)
{
    __atomic_store_n(&state_guest_mailbox(machine, cpu)->release, job, __ATOMIC_RELEASE);
}

static struct timespec duration(unsigned ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
}

void state_guest_nap_ms(unsigned ms)
{
    const struct timespec nap = duration(ms);

    nanosleep(&nap, NULL);
}

void state_guest_await(struct machine *machine, const volatile uint64_t *counter, uint64_t value)
{
    uint64_t deadline = clock_now_ns() + TEST_GUEST_PATIENCE_MS / 4 * CLOCK_NS_PER_MS;

    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < value) {
        if (machine_state(machine) != MACHINE_RUNNING)
            fail_msg("the guest ended: %s", machine_exit(machine)->reason);
        if (clock_now_ns() > deadline)
            fail_msg("a counter stays at %llu, and was to come to %llu",
                     (unsigned long long)*counter, (unsigned long long)value);
        state_guest_nap_ms(1);
    }
}

void state_guest_await_more(struct machine *machine, const volatile uint64_t *counter,
                            uint64_t more)
{
    state_guest_await(machine, counter, *counter + more);
}

void state_guest_pause(struct machine *machine)
{
    struct error err = {0};

    must(machine_pause(machine, &err), &err);
}

void state_guest_resume(struct machine *machine)
{
    struct error err = {0};

    must(machine_resume(machine, &err), &err);
}

struct machine *state_guest_move(const struct kvm *kvm, struct machine *machine)
{
    machine = test_guest_hop(kvm, machine, &console);
    state_guest_resume(machine);
    return machine;
}

struct machine *state_guest_move_slowly(const struct kvm *kvm, struct machine *machine, unsigned ms)
{
    const struct timespec nap = duration(ms);

    machine = test_guest_hop_slowly(kvm, machine, &console, &nap);
    state_guest_resume(machine);
    return machine;
}

struct machine *state_guest_hop(const struct kvm *kvm, struct machine *machine)
{
    state_guest_pause(machine);
    return state_guest_move(kvm, machine);
}

struct machine *state_guest_move_changed(const struct kvm *kvm, struct machine *machine,
                                         test_guest_change *change)
{
    return test_guest_hop_changed(kvm, machine, &console, change);
}

void *state_guest_open_tree(void **state, size_t *state_bytes)
{
    size_t bytes = *state_bytes + ROOM;
    void *tree = malloc(bytes);

    assert_non_null(tree);
    assert_int_equal(fdt_open_into(*state, tree, (int)bytes), 0);
    free(*state);
    *state = tree;
    *state_bytes = bytes;
    return tree;
}

uint32_t state_guest_saved(struct machine *machine, const char *node, const char *property)
{
    struct error err = {0};
    size_t state_bytes;
    const void *data;
    fdt32_t cell;
    void *state;
    int bytes;

    must(machine_save(machine, &state, &state_bytes, &err), &err);
    data = fdt_getprop(state, fdt_path_offset(state, node), property, &bytes);
    assert_non_null(data);
    assert_true((size_t)bytes >= sizeof(cell));
    memcpy(&cell, data, sizeof(cell));
    free(state);
    return fdt32_to_cpu(cell);
}

void state_guest_finish(struct machine *machine)
{
    assert_int_equal(machine_state(machine), MACHINE_RUNNING);
    for (unsigned cpu = 0; cpu < machine_ncpus(machine); cpu++) {
        const volatile struct state_guest_mailbox *mailbox = state_guest_mailbox(machine, cpu);

        assert_int_equal(mailbox->clock_steps, 0);
        assert_int_equal(mailbox->early, 0);
    }
    machine_destroy(machine);
}
