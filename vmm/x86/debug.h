/* SPDX-License-Identifier: MIT
 *
 * What KVM does for a debugger on one vCPU: single steps, int3 and the debug registers (api.rst
 * 4.87 KVM_SET_GUEST_DEBUG), addresses of its page tables (4.36 KVM_TRANSLATE). The vCPU must not
 * be in KVM_RUN. */
#ifndef VMM_X86_DEBUG_H
#define VMM_X86_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"

/* DR0 to DR3. */
#define DEBUG_NHARDWARE 4

#define DEBUG_VECTOR_DB 1u
#define DEBUG_VECTOR_BP 3u

#define DEBUG_INT3 0xccu

enum debug_point {
    DEBUG_POINT_SOFTWARE, /* int3 in memory */
    DEBUG_POINT_EXECUTE,  /* debug register */
    DEBUG_POINT_WRITE,    /* likewise */
    DEBUG_POINT_ACCESS,   /* likewise: reads and writes */
};

struct debug_hardware {
    bool used;
    enum debug_point kind; /* not DEBUG_POINT_SOFTWARE */
    uint64_t address;      /* linear */
    uint64_t bytes;        /* 1, 2, 4 or 8; 1 for DEBUG_POINT_EXECUTE */
};

/* What a vCPU is told; all zero: nobody debugs, and KVM leaves the guest's own exceptions alone. */
struct debug_control {
    bool software; /* int3 leaves KVM_RUN */
    bool step;     /* one instruction */
    bool hold_irq; /* no interrupt before it, where this KVM can */
    const struct debug_hardware *hardware;
    uint32_t inject; /* vector of an exception that was the guest's own; 0: none */
};

/* -EINVAL with a line where a debug register cannot watch that: a length that is no power of two
 * up to 8, or an address that is no multiple of it (SDM volume 3, 17.2.5). */
int debug_check_hardware(const struct debug_hardware *point, struct error *err);

/* DR7 for DEBUG_NHARDWARE points; 0 where none is used. */
uint64_t debug_dr7(const struct debug_hardware *points);

int debug_control(int vcpu_fd, const struct debug_control *control, struct error *err);

/* -EFAULT where the vCPU's page tables map nothing there. */
int debug_translate(int vcpu_fd, uint64_t address, gpa_t *gpa, struct error *err);

#endif
