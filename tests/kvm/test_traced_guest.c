/* SPDX-License-Identifier: MIT
 *
 * What a real guest exits for is counted, every access once: the guest counts its own, and so does
 * the device; and they add up across pauses and hops. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/kvm.h>

#include "test_guest.h"
#include "vmm/base/size.h"
#include "vmm/exit_trace.h"

#define MEMORY_BYTES (16 * SIZE_MIB)
#define ROUNDS       5

static struct kvm kvm;
static struct test_console console;
static const struct machine_host traced = {.backing = MEMORY_ANON, .trace_exits = true};

static struct machine *create(unsigned ncpus, const char *bootargs, bool load)
{
    console.bytes = 0;
    return test_guest_create_on(&kvm, &traced, ncpus, MEMORY_BYTES, bootargs, load);
}

static void get(struct machine *machine, struct exit_trace *trace)
{
    struct error err = {0};

    if (machine_exit_trace(machine, trace, &err))
        fail_msg("%s", err.text);
}

/* What is counted at a place. */
static struct exit_trace_count at(const struct exit_trace *trace, enum exit_trace_access access,
                                  uint64_t address)
{
    static struct exit_trace_place top[EXIT_TRACE_PLACES];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];
    unsigned ntop = exit_trace_top(trace, top, EXIT_TRACE_PLACES, others);

    for (unsigned i = 0; i < ntop; i++) {
        if (top[i].key == exit_trace_key(access, address))
            return top[i].count;
    }
    return (struct exit_trace_count){0};
}

/* Places of one kind add up to what their reason counted. */
static void check_sums(const struct exit_trace *trace)
{
    static struct exit_trace_place top[EXIT_TRACE_PLACES];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];
    unsigned ntop = exit_trace_top(trace, top, EXIT_TRACE_PLACES, others);
    const struct exit_trace_count *io = &trace->reason[KVM_EXIT_IO];
    const struct exit_trace_count *mmio = &trace->reason[KVM_EXIT_MMIO];
    uint64_t exits = 0, values = 0, total_ns = 0;

    for (unsigned i = 0; i < ntop; i++) {
        exits += top[i].count.exits;
        values += top[i].count.values;
        total_ns += top[i].count.total_ns;
        assert_true(top[i].count.max_ns <= top[i].count.total_ns);
    }
    assert_int_equal(exits, io->exits + mmio->exits);
    assert_int_equal(values, io->values + mmio->values);
    assert_int_equal(total_ns, io->total_ns + mmio->total_ns);
    assert_true(total_ns > 0);
}

/* The counters that the guest printed at its end. */
static void read_summary(unsigned *port, unsigned *mmio)
{
    const char *summary = strstr(console.text, "counter: OK");

    assert_non_null(summary);
    assert_non_null(strstr(summary, "port="));
    *port = (unsigned)strtoul(strstr(summary, "port=") + strlen("port="), NULL, 10);
    *mmio = (unsigned)strtoul(strstr(summary, "mmio=") + strlen("mmio="), NULL, 10);
}

static uint64_t port_accesses(const struct exit_trace *trace)
{
    return at(trace, EXIT_TRACE_PORT_IN, PROBE_PORT + PROBE_REG_COUNT).values +
           at(trace, EXIT_TRACE_PORT_OUT, PROBE_PORT + PROBE_REG_COUNT).values;
}

/* What came out of the serial port went into it; and the divisor's low byte, which has its place.
 */
static void check_console(const struct exit_trace *trace)
{
    assert_int_equal(at(trace, EXIT_TRACE_PORT_OUT, GUEST_SERIAL_PORT).values, console.bytes + 1);
}

/* Two vCPUs, one at the ports and one at the MMIO window, and pauses in between. */
static void test_counter(void **state)
{
    static struct exit_trace before, after;
    struct machine *machine = create(2, "counter cpus=2", true);
    unsigned port, mmio;

    (void)state;
    assert_int_equal(machine_start(machine, NULL), 0);
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    for (unsigned i = 0; i < ROUNDS; i++) {
        test_guest_wait_beats(machine, 1);
        assert_int_equal(machine_pause(machine, NULL), 0);
        get(machine, &before);
        check_sums(&before);
        get(machine, &after); /* nothing happens in a pause */
        assert_memory_equal(&before, &after, sizeof(before));
        assert_int_equal(machine_resume(machine, NULL), 0);
    }
    test_guest_finish(machine, &console);
    get(machine, &after);
    check_sums(&after);
    read_summary(&port, &mmio);
    assert_int_equal(port_accesses(&after), port);
    assert_true(port_accesses(&after) > port_accesses(&before));
    assert_true(at(&after, EXIT_TRACE_MMIO_READ, PROBE_MMIO).exits +
                    at(&after, EXIT_TRACE_MMIO_WRITE, PROBE_MMIO).exits >
                mmio);
    /* Every pause interrupts those that run; a vCPU may have been about to leave by itself. */
    assert_true(after.interrupted >= ROUNDS);
    assert_int_equal(at(&after, EXIT_TRACE_PORT_OUT, GUEST_EXIT_PORT_DEFAULT).exits, 1);
    check_console(&after);
    machine_destroy(machine);
}

/* Single accesses only: each step is one read and one write that count, and one that does not. */
static void test_single_accesses(void **state)
{
    static struct exit_trace trace;
    struct machine *machine = create(1, "counter window=port string=no", true);
    struct exit_trace_count in, out;
    unsigned port, mmio;

    (void)state;
    assert_int_equal(machine_start(machine, NULL), 0);
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    test_guest_wait_beats(machine, 1);
    test_guest_finish(machine, &console);
    get(machine, &trace);
    read_summary(&port, &mmio);
    in = at(&trace, EXIT_TRACE_PORT_IN, PROBE_PORT + PROBE_REG_COUNT);
    out = at(&trace, EXIT_TRACE_PORT_OUT, PROBE_PORT + PROBE_REG_COUNT);
    assert_int_equal(in.exits, port / 2);
    assert_int_equal(out.exits, port / 2);
    assert_int_equal(in.values, in.exits);
    /* A peek for each step, one before the first, one after the last, one for the summary. */
    assert_int_equal(at(&trace, EXIT_TRACE_PORT_IN, PROBE_PORT + PROBE_REG_PEEK).exits,
                     port / 2 + 3);
    machine_destroy(machine);
}

/* Each machine counts what happened in it. */
static void test_hops(void **state)
{
    static struct exit_trace trace;
    struct machine *machine = create(1, "counter", true);
    uint64_t accesses = 0;
    unsigned port, mmio;

    (void)state;
    assert_int_equal(machine_start(machine, NULL), 0);
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    for (unsigned i = 0; i < ROUNDS; i++) {
        test_guest_wait_beats(machine, 1);
        assert_int_equal(machine_pause(machine, NULL), 0);
        get(machine, &trace);
        accesses += port_accesses(&trace);
        machine = test_guest_hop_to(&kvm, &traced, machine, &console);
        get(machine, &trace);
        assert_int_equal(port_accesses(&trace), 0);
        assert_int_equal(machine_resume(machine, NULL), 0);
    }
    test_guest_finish(machine, &console);
    get(machine, &trace);
    read_summary(&port, &mmio);
    assert_int_equal(accesses + port_accesses(&trace), port);
    machine_destroy(machine);
}

static void test_untraced(void **state)
{
    static struct exit_trace trace;
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "hello", true);
    struct error err = {0};

    (void)state;
    console.bytes = 0;
    assert_int_equal(machine_start(machine, NULL), 0);
    test_guest_wait_exit(machine, &console);
    assert_int_equal(machine_exit_trace(machine, &trace, &err), -ENOENT);
    assert_non_null(strstr(err.text, "--trace exits"));
    machine_destroy(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_single_accesses),
        cmocka_unit_test(test_hops),
        cmocka_unit_test(test_untraced),
    };

    test_guest_open_kvm(&kvm);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
