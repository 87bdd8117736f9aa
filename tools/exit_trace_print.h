/* SPDX-License-Identifier: MIT
 *
 * Exits of a guest as a table for people. */
#ifndef TOOLS_EXIT_TRACE_PRINT_H
#define TOOLS_EXIT_TRACE_PRINT_H

#include <stdio.h>

#include "vmm/bus.h"
#include "vmm/exit_trace.h"
#include "vmm/machine.h"

/* How many ports and MMIO pages the table names; all others share lines. */
#define EXIT_TRACE_PRINT_PLACES 20

/* What a person calls this access: in, out, read or write; and the space that it is in. */
const char *exit_trace_access_name(enum exit_trace_access access);
enum bus_space exit_trace_access_space(enum exit_trace_access access);

/* The mean of a count; 0 where there is none. */
double exit_trace_mean_ns(const struct exit_trace_count *count);

/* `bus` tells whose window a place is in. */
void exit_trace_print(FILE *file, const struct exit_trace *trace, const struct bus *bus,
                      unsigned ncpus);

/* The table of a machine whose exits are counted, on standard error; else nothing. */
void exit_trace_report(struct machine *machine);

#endif
