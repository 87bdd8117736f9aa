/* SPDX-License-Identifier: MIT */
#include "tools/exit_trace_print.h"

#include <inttypes.h>
#include <linux/kvm.h>
#include <stdlib.h>

#define LABEL_BYTES 64

const char *exit_trace_access_name(enum exit_trace_access access)
{
    static const char *const names[EXIT_TRACE_NACCESSES] = {
        [EXIT_TRACE_PORT_IN] = "in",
        [EXIT_TRACE_PORT_OUT] = "out",
        [EXIT_TRACE_MMIO_READ] = "read",
        [EXIT_TRACE_MMIO_WRITE] = "write",
    };

    return names[access];
}

enum bus_space exit_trace_access_space(enum exit_trace_access access)
{
    return access == EXIT_TRACE_PORT_IN || access == EXIT_TRACE_PORT_OUT ? BUS_PORT : BUS_MMIO;
}

double exit_trace_mean_ns(const struct exit_trace_count *count)
{
    return count->exits ? (double)count->total_ns / (double)count->exits : 0;
}

static void print_row(FILE *file, const char *label, const struct exit_trace_count *count)
{
    (void)fprintf(file, "%-36s %10" PRIu64 " %10" PRIu64 " %11.3f %9.2f %9.2f\n", label,
                  count->exits, count->values, (double)count->total_ns / 1e6,
                  exit_trace_mean_ns(count) / 1e3, (double)count->max_ns / 1e3);
}

struct places {
    struct exit_trace_place top[EXIT_TRACE_PRINT_PLACES];
    unsigned ntop;
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];
};

/* The places below the exit reason that they belong to. */
static void print_places(FILE *file, const struct places *places, enum bus_space space,
                         const struct bus *bus)
{
    char label[LABEL_BYTES];

    for (unsigned i = 0; i < places->ntop; i++) {
        enum exit_trace_access access = exit_trace_key_access(places->top[i].key);
        uint64_t address = exit_trace_key_address(places->top[i].key);
        const char *window = bus_window_name(bus, space, address);

        if (exit_trace_access_space(access) != space)
            continue;
        (void)snprintf(label, sizeof(label), "  %-5s 0x%" PRIx64 " %s",
                       exit_trace_access_name(access), address, window ? window : "(nobody)");
        print_row(file, label, &places->top[i].count);
    }
    for (unsigned i = 0; i < EXIT_TRACE_NACCESSES; i++) {
        enum exit_trace_access access = (enum exit_trace_access)i;

        if (exit_trace_access_space(access) != space || !places->others[i].exits)
            continue;
        (void)snprintf(label, sizeof(label), "  %-5s others", exit_trace_access_name(access));
        print_row(file, label, &places->others[i]);
    }
}

void exit_trace_print(FILE *file, const struct exit_trace *trace, const struct bus *bus,
                      unsigned ncpus)
{
    struct places places;

    places.ntop = exit_trace_top(trace, places.top, EXIT_TRACE_PRINT_PLACES, places.others);
    (void)fprintf(file, "%-36s %10s %10s %11s %9s %9s\n", "KVM exit", "exits", "values", "total ms",
                  "mean us", "max us");
    for (unsigned i = 0; i < EXIT_TRACE_REASONS; i++) {
        const char *name = exit_trace_reason_name(i);
        char label[LABEL_BYTES];

        if (!trace->reason[i].exits)
            continue;
        (void)snprintf(label, sizeof(label), "exit reason %u", i);
        print_row(file, name ? name : label, &trace->reason[i]);
        if (i == KVM_EXIT_IO)
            print_places(file, &places, BUS_PORT, bus);
        if (i == KVM_EXIT_MMIO)
            print_places(file, &places, BUS_MMIO, bus);
    }
    (void)fprintf(file, "%-36s %10" PRIu64 "\n", "interrupted (EINTR), no exit",
                  trace->interrupted);
    (void)fprintf(file, "vCPUs: %u; times are those of handling in user space\n", ncpus);
}

void exit_trace_report(struct machine *machine)
{
    struct exit_trace *trace = aligned_alloc(_Alignof(struct exit_trace), sizeof(*trace));

    if (trace && machine_exit_trace(machine, trace, NULL) == 0)
        exit_trace_print(stderr, trace, machine_bus(machine), machine_ncpus(machine));
    free(trace);
}
