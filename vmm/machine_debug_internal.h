/* SPDX-License-Identifier: MIT
 *
 * What a machine keeps for its debugger. Changes only while all vCPUs are parked, but for what
 * says otherwise. */
#ifndef VMM_MACHINE_DEBUG_INTERNAL_H
#define VMM_MACHINE_DEBUG_INTERNAL_H

#include "vmm/machine_debug.h"
#include "vmm/machine_tree.h"
#include "vmm/vcpu.h"
#include "vmm/x86/debug_probe.h"

struct machine_debug_point {
    uint64_t address;
    gpa_t gpa;
    uint8_t original;
};

struct machine_debug {
    bool attached;
    bool hit; /* atomic: a vCPU has stopped */
    struct debug_support support;
    struct debug_hardware hardware[DEBUG_NHARDWARE];
    unsigned npoints;
    struct machine_debug_point point[MACHINE_DEBUG_MAX_POINTS];
    bool stepping[MACHINE_MAX_CPUS];
    struct machine_debug_stop stop[MACHINE_MAX_CPUS]; /* written by the vCPU's thread as it stops */
};

/* vcpu_events.debug */
bool machine_debug_exit(void *opaque, unsigned cpu, const struct vcpu_debug_exit *exit);

/* 0 where the guest is under a debugger and all its vCPUs are parked. */
int machine_debug_stands(struct machine *machine, unsigned cpu, struct error *err);

/* The software breakpoint at a byte of RAM, or NULL. */
const struct machine_debug_point *machine_debug_point_at(const struct machine_debug *debug,
                                                         gpa_t gpa);
void machine_debug_remove_all(struct machine *machine);

#endif
