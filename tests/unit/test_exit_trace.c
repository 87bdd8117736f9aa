/* SPDX-License-Identifier: MIT
 *
 * Exits are counted by reason and place, merged, ranked and printed; what finds no room is counted
 * all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/kvm.h>

#include "tools/exit_trace_print.h"
#include "vmm/exit_trace.h"

static void count_io(struct exit_trace *trace, uint16_t port, bool out, uint32_t values,
                     uint64_t ns)
{
    struct kvm_run run = {.exit_reason = KVM_EXIT_IO};

    run.io.direction = out ? KVM_EXIT_IO_OUT : KVM_EXIT_IO_IN;
    run.io.port = port;
    run.io.size = 4;
    run.io.count = values;
    exit_trace_add(trace, &run, ns);
}

static void count_mmio(struct exit_trace *trace, uint64_t address, bool write, uint64_t ns)
{
    struct kvm_run run = {.exit_reason = KVM_EXIT_MMIO};

    run.mmio.phys_addr = address;
    run.mmio.is_write = write;
    run.mmio.len = 4;
    exit_trace_add(trace, &run, ns);
}

static void count_other(struct exit_trace *trace, uint32_t reason, uint64_t ns)
{
    const struct kvm_run run = {.exit_reason = reason};

    exit_trace_add(trace, &run, ns);
}

static void expect(const struct exit_trace_count *count, uint64_t exits, uint64_t values,
                   uint64_t total_ns, uint64_t max_ns)
{
    assert_int_equal(count->exits, exits);
    assert_int_equal(count->values, values);
    assert_int_equal(count->total_ns, total_ns);
    assert_int_equal(count->max_ns, max_ns);
}

static const struct exit_trace_count *find(const struct exit_trace_place *top, unsigned ntop,
                                           enum exit_trace_access access, uint64_t address)
{
    for (unsigned i = 0; i < ntop; i++) {
        if (exit_trace_key_access(top[i].key) == access &&
            exit_trace_key_address(top[i].key) == address)
            return &top[i].count;
    }
    fail_msg("nothing is counted at 0x%llx", (unsigned long long)address);
    return NULL;
}

static void test_counts(void **state)
{
    static struct exit_trace trace;
    static struct exit_trace_place top[EXIT_TRACE_PLACES];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];
    unsigned ntop;

    (void)state;
    count_io(&trace, 0, false, 1, 10);
    count_io(&trace, 0, true, 1, 20);
    count_io(&trace, 0xffff, true, 1, 5);
    count_io(&trace, 0xffff, true, 64, 100);
    count_io(&trace, 0xffff, true, 1, 30);
    count_mmio(&trace, 0xd0000004, false, 7);
    count_mmio(&trace, 0xd0000ffc, false, 8);
    count_mmio(&trace, 0xd0001000, false, 9);
    count_mmio(&trace, 0xfffffffffffffull, true, 1);
    count_other(&trace, KVM_EXIT_SHUTDOWN, 3);
    count_other(&trace, EXIT_TRACE_REASONS, 1);
    count_other(&trace, UINT32_MAX, 2);
    exit_trace_interrupted(&trace);
    expect(&trace.reason[KVM_EXIT_IO], 5, 68, 165, 100);
    expect(&trace.reason[KVM_EXIT_MMIO], 4, 4, 25, 9);
    expect(&trace.reason[KVM_EXIT_SHUTDOWN], 1, 1, 3, 3);
    expect(&trace.reason[EXIT_TRACE_REASONS - 1], 2, 2, 3, 2);
    assert_int_equal(trace.interrupted, 1);

    ntop = exit_trace_top(&trace, top, EXIT_TRACE_PLACES, others);
    assert_int_equal(ntop, 6);
    expect(find(top, ntop, EXIT_TRACE_PORT_IN, 0), 1, 1, 10, 10);
    expect(find(top, ntop, EXIT_TRACE_PORT_OUT, 0), 1, 1, 20, 20);
    expect(find(top, ntop, EXIT_TRACE_PORT_OUT, 0xffff), 3, 66, 135, 100);
    expect(find(top, ntop, EXIT_TRACE_MMIO_READ, 0xd0000000), 2, 2, 15, 8);
    expect(find(top, ntop, EXIT_TRACE_MMIO_READ, 0xd0001000), 1, 1, 9, 9);
    expect(find(top, ntop, EXIT_TRACE_MMIO_WRITE, 0xffffffffff000ull), 1, 1, 1, 1);
    for (unsigned i = 0; i < EXIT_TRACE_NACCESSES; i++)
        expect(&others[i], 0, 0, 0, 0);
}

/* A guest may access every port there is. */
static void test_more_places_than_room(void **state)
{
    static struct exit_trace trace;
    static struct exit_trace_place top[EXIT_TRACE_PLACES];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];

    (void)state;
    for (unsigned port = 0; port < 0x10000; port++)
        count_io(&trace, (uint16_t)port, port % 2, 1, 1);
    count_mmio(&trace, 0x1000, true, 50);
    count_io(&trace, 0, false, 1, 1); /* the first ones keep theirs */
    expect(&trace.reason[KVM_EXIT_IO], 0x10001, 0x10001, 0x10001, 1);
    assert_int_equal(exit_trace_top(&trace, top, EXIT_TRACE_PLACES, others), EXIT_TRACE_PLACES);
    expect(find(top, EXIT_TRACE_PLACES, EXIT_TRACE_PORT_IN, 0), 2, 2, 2, 1);
    expect(find(top, EXIT_TRACE_PLACES, EXIT_TRACE_PORT_OUT, 1), 1, 1, 1, 1);
    expect(&others[EXIT_TRACE_PORT_IN], 0x8000 - EXIT_TRACE_PLACES / 2,
           0x8000 - EXIT_TRACE_PLACES / 2, 0x8000 - EXIT_TRACE_PLACES / 2, 1);
    expect(&others[EXIT_TRACE_PORT_OUT], 0x8000 - EXIT_TRACE_PLACES / 2,
           0x8000 - EXIT_TRACE_PLACES / 2, 0x8000 - EXIT_TRACE_PLACES / 2, 1);
    expect(&others[EXIT_TRACE_MMIO_WRITE], 1, 1, 50, 50);
}

static void test_top(void **state)
{
    static struct exit_trace trace;
    struct exit_trace_place top[2];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];

    (void)state;
    for (unsigned port = 1; port <= 4; port++) {
        for (unsigned i = 0; i < port * 10; i++)
            count_io(&trace, (uint16_t)port, true, 2, port);
    }
    assert_int_equal(exit_trace_top(&trace, top, 2, others), 2);
    assert_int_equal(exit_trace_key_address(top[0].key), 4);
    assert_int_equal(exit_trace_key_address(top[1].key), 3);
    expect(&top[0].count, 40, 80, 160, 4);
    expect(&others[EXIT_TRACE_PORT_OUT], 30, 60, 50, 2);
}

static void test_merge(void **state)
{
    static struct exit_trace one, two, merged;
    static struct exit_trace_place top[EXIT_TRACE_PLACES];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];
    uint64_t exits = 0;

    (void)state;
    /* Each has room for its own places, the sum has not. */
    for (unsigned port = 0; port < EXIT_TRACE_PLACES; port++) {
        count_io(&one, (uint16_t)(0x1000 + port), true, 1, 2);
        count_io(&two, (uint16_t)(0x1000 + EXIT_TRACE_PLACES / 2 + port), true, 1, 4);
    }
    exit_trace_interrupted(&one);
    exit_trace_interrupted(&two);
    exit_trace_merge(&merged, &one);
    exit_trace_merge(&merged, &two);
    assert_int_equal(merged.interrupted, 2);
    expect(&merged.reason[KVM_EXIT_IO], 2 * EXIT_TRACE_PLACES, 2 * EXIT_TRACE_PLACES,
           6 * EXIT_TRACE_PLACES, 4);
    assert_int_equal(exit_trace_top(&merged, top, EXIT_TRACE_PLACES, others), EXIT_TRACE_PLACES);
    expect(&top[0].count, 2, 2, 6, 4); /* both had it */
    expect(&others[EXIT_TRACE_PORT_OUT], EXIT_TRACE_PLACES / 2, EXIT_TRACE_PLACES / 2,
           2 * EXIT_TRACE_PLACES, 4);
    for (unsigned i = 0; i < EXIT_TRACE_PLACES; i++)
        exits += top[i].count.exits;
    assert_int_equal(exits + others[EXIT_TRACE_PORT_OUT].exits, 2 * EXIT_TRACE_PLACES);
}

static void ignore(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes, bool is_write)
{
    (void)opaque;
    (void)offset;
    (void)data;
    (void)bytes;
    (void)is_write;
}

static void test_names(void **state)
{
    const struct bus_window window = {
        .name = "device", .start = 0x100, .bytes = 8, .access = ignore};
    static struct bus bus;

    (void)state;
    bus_init(&bus);
    assert_int_equal(bus_add(&bus, BUS_PORT, &window, NULL), 0);
    assert_string_equal(bus_window_name(&bus, BUS_PORT, 0x107), "device");
    assert_null(bus_window_name(&bus, BUS_PORT, 0xff));
    assert_null(bus_window_name(&bus, BUS_PORT, 0x108));
    assert_null(bus_window_name(&bus, BUS_MMIO, 0x100));
    assert_string_equal(exit_trace_reason_name(KVM_EXIT_IO), "KVM_EXIT_IO");
    assert_string_equal(exit_trace_reason_name(KVM_EXIT_DIRTY_RING_FULL),
                        "KVM_EXIT_DIRTY_RING_FULL");
    assert_null(exit_trace_reason_name(EXIT_TRACE_REASONS - 1));
    assert_null(exit_trace_reason_name(UINT32_MAX));
}

static void test_table(void **state)
{
    static const char wanted[] = "KVM exit                                  exits     values    "
                                 "total ms   mean us    max us\n"
                                 "KVM_EXIT_IO                                   3         66       "
                                 "0.006      2.00      3.50\n"
                                 "  out   0x100 device                          2         65       "
                                 "0.005      2.50      3.50\n"
                                 "  in    0x80 (nobody)                         1          1       "
                                 "0.001      1.00      1.00\n"
                                 "KVM_EXIT_MMIO                                 1          1       "
                                 "0.000      0.20      0.20\n"
                                 "  write 0xd0000000 (nobody)                   1          1       "
                                 "0.000      0.20      0.20\n"
                                 "exit reason 63                                1          1       "
                                 "0.000      0.00      0.00\n"
                                 "interrupted (EINTR), no exit                  1\n"
                                 "vCPUs: 2; times are those of handling in user space\n";
    const struct bus_window window = {
        .name = "device", .start = 0x100, .bytes = 8, .access = ignore};
    static struct exit_trace trace;
    static struct bus bus;
    size_t length;
    char *text;
    FILE *file = open_memstream(&text, &length);

    (void)state;
    assert_non_null(file);
    bus_init(&bus);
    assert_int_equal(bus_add(&bus, BUS_PORT, &window, NULL), 0);
    count_io(&trace, 0x100, true, 1, 1500);
    count_io(&trace, 0x100, true, 64, 3500);
    count_io(&trace, 0x80, false, 1, 1000);
    count_mmio(&trace, 0xd0000010, true, 200);
    count_other(&trace, 1000, 0);
    exit_trace_interrupted(&trace);
    exit_trace_print(file, &trace, &bus, 2);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, wanted);
    free(text);
}

/* The table names the busiest places only; the rest is in it all the same. */
static void test_long_table(void **state)
{
    static struct exit_trace trace;
    static struct bus bus;
    size_t length;
    char *text, *others;
    FILE *file = open_memstream(&text, &length);
    unsigned lines = 0;

    (void)state;
    assert_non_null(file);
    bus_init(&bus);
    for (unsigned port = 0; port < 1000; port++)
        count_io(&trace, (uint16_t)port, true, 1, 1);
    exit_trace_print(file, &trace, &bus, 1);
    assert_int_equal(fclose(file), 0);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, EXIT_TRACE_PRINT_PLACES + 5);
    others = strstr(text, "  out   others");
    assert_non_null(others);
    assert_int_equal(strtoul(others + strlen("  out   others"), NULL, 10),
                     1000 - EXIT_TRACE_PRINT_PLACES);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),     cmocka_unit_test(test_more_places_than_room),
        cmocka_unit_test(test_top),        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_table),
        cmocka_unit_test(test_long_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
