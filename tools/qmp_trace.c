/* SPDX-License-Identifier: MIT
 *
 * Exits of a guest as JSON, with the table for people beside them. */
#include "tools/qmp_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/exit_trace_print.h"

/* The figures that every entry has; takes over `entry`. */
static json_t *with_count(json_t *entry, const struct exit_trace_count *count)
{
    (void)json_object_set_new(entry, "exits", json_integer((json_int_t)count->exits));
    (void)json_object_set_new(entry, "values", json_integer((json_int_t)count->values));
    (void)json_object_set_new(entry, "total_ns", json_integer((json_int_t)count->total_ns));
    (void)json_object_set_new(entry, "mean_ns", json_real(exit_trace_mean_ns(count)));
    (void)json_object_set_new(entry, "max_ns", json_integer((json_int_t)count->max_ns));
    return entry;
}

static json_t *reasons(const struct exit_trace *trace)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < EXIT_TRACE_REASONS; i++) {
        if (trace->reason[i].exits)
            (void)json_array_append_new(
                list,
                with_count(json_pack("{s:i, s:s?}", "reason", i, "name", exit_trace_reason_name(i)),
                           &trace->reason[i]));
    }
    return list;
}

static json_t *places(const struct exit_trace *trace, const struct bus *bus)
{
    struct exit_trace_place all[EXIT_TRACE_PLACES];
    struct exit_trace_count others[EXIT_TRACE_NACCESSES];
    unsigned nplaces = exit_trace_top(trace, all, EXIT_TRACE_PLACES, others);
    json_t *list = json_array();

    for (unsigned i = 0; i < nplaces; i++) {
        enum exit_trace_access access = exit_trace_key_access(all[i].key);
        uint64_t address = exit_trace_key_address(all[i].key);
        json_t *entry = json_pack("{s:s, s:I, s:s?}", "access", exit_trace_access_name(access),
                                  "address", (json_int_t)address, "window",
                                  bus_window_name(bus, exit_trace_access_space(access), address));

        (void)json_array_append_new(list, with_count(entry, &all[i].count));
    }
    for (unsigned i = 0; i < EXIT_TRACE_NACCESSES; i++) {
        json_t *entry;

        if (!others[i].exits)
            continue;
        entry = json_pack("{s:s, s:n, s:n}", "access",
                          exit_trace_access_name((enum exit_trace_access)i), "address", "window");
        (void)json_array_append_new(list, with_count(entry, &others[i]));
    }
    return list;
}

/* The table, as it is printed at the guest's end. */
static json_t *table(const struct exit_trace *trace, const struct machine *machine)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    json_t *value = NULL;

    if (file) {
        exit_trace_print(file, trace, machine_bus(machine), machine_ncpus(machine));
        if (fclose(file) == 0)
            value = json_string(text);
    }
    free(text);
    return value;
}

json_t *qmp_trace_exits(struct server *server, json_t *arguments, struct error *err)
{
    struct machine *machine = vm_host_machine(&server->host);
    struct exit_trace *trace;
    json_t *answer = NULL;

    (void)arguments;
    if (!machine) {
        (void)error_set(err, EBUSY, "no guest has arrived yet");
        return NULL;
    }
    trace = aligned_alloc(_Alignof(struct exit_trace), sizeof(*trace));
    if (!trace)
        (void)error_set(err, ENOMEM, "no memory to add up exits");
    else if (machine_exit_trace(machine, trace, err) == 0)
        answer =
            json_pack("{s:i, s:I, s:o, s:o, s:o*}", "vcpus", (int)machine_ncpus(machine),
                      "interrupted", (json_int_t)trace->interrupted, "reasons", reasons(trace),
                      "places", places(trace, machine_bus(machine)), "text", table(trace, machine));
    free(trace);
    return answer;
}
