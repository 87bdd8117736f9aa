/* SPDX-License-Identifier: MIT
 *
 * A machine under a debugger: its vCPUs stop at breakpoints and after single steps, and are looked
 * at while all of them stand. Like lifecycle calls, from one thread at a time. */
#ifndef VMM_MACHINE_DEBUG_H
#define VMM_MACHINE_DEBUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/machine.h"
#include "vmm/x86/debug.h"
#include "vmm/x86/debug_registers.h"

#define MACHINE_DEBUG_MAX_POINTS 256 /* of DEBUG_POINT_SOFTWARE; DEBUG_NHARDWARE of the others */

enum machine_debug_run {
    MACHINE_DEBUG_HOLD, /* stays where it is */
    MACHINE_DEBUG_STEP, /* one instruction */
    MACHINE_DEBUG_GO,
};

enum machine_debug_cause {
    MACHINE_DEBUG_NOTHING, /* it was asked to */
    MACHINE_DEBUG_STEPPED,
    MACHINE_DEBUG_POINT, /* `kind` says of which kind */
};

struct machine_debug_stop {
    enum machine_debug_cause cause;
    unsigned cpu;
    enum debug_point kind;
    uint64_t address; /* of the point */
};

/* Begins; the guest stands: created or paused. Finds out what this host can do. */
int machine_debug_attach(struct machine *machine, struct error *err);
/* Takes all breakpoints out of memory and registers; the guest stands or has ended. Nothing of the
 * debugger is left in it. Harmless where none is attached. */
void machine_debug_detach(struct machine *machine);

/* Runs: created or paused -> running, vCPU i as each[i] says. */
int machine_debug_run(struct machine *machine, const enum machine_debug_run *each,
                      struct error *err);
/* A vCPU has stopped by itself: call machine_debug_stop(). machine_event_fd() tells. */
bool machine_debug_hit(const struct machine *machine);
/* Pauses, and says why the guest stands. Where several vCPUs stopped at once it tells of one; the
 * others stop again as soon as they run. -ESHUTDOWN where the guest has ended. */
int machine_debug_stop(struct machine *machine, struct machine_debug_stop *stop, struct error *err);

/* The following want a guest that stands; -EBUSY where it runs. */
int machine_debug_get_registers(struct machine *machine, unsigned cpu,
                                struct debug_registers *registers, struct error *err);
int machine_debug_set_registers(struct machine *machine, unsigned cpu,
                                const struct debug_registers *registers, struct error *err);

/* Memory at a linear address of a vCPU, as without breakpoints. -EFAULT, and nothing written, where
 * not all of it is mapped, to RAM. What is written is marked as dirty. */
int machine_debug_read(struct machine *machine, unsigned cpu, uint64_t address, void *buffer,
                       size_t bytes, struct error *err);
int machine_debug_write(struct machine *machine, unsigned cpu, uint64_t address, const void *buffer,
                        size_t bytes, struct error *err);

/* Breakpoints and watchpoints; one that is there already is no error. The linear address of a
 * software breakpoint is looked up in the page tables of `cpu` now; all vCPUs stop wherever they
 * meet that byte. -ENOSPC: too many, -ENOTSUP: not on this host, -EINVAL: debug_check_hardware().
 */
int machine_debug_insert(struct machine *machine, unsigned cpu, enum debug_point kind,
                         uint64_t address, uint64_t bytes, struct error *err);
/* -ENOENT: there is none. */
int machine_debug_remove(struct machine *machine, enum debug_point kind, uint64_t address,
                         uint64_t bytes, struct error *err);

#endif
