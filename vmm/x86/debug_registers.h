/* SPDX-License-Identifier: MIT
 *
 * A vCPU's registers as a debugger reads and writes them. The vCPU must not be running. */
#ifndef VMM_X86_DEBUG_REGISTERS_H
#define VMM_X86_DEBUG_REGISTERS_H

#include <stdint.h>

#include "vmm/base/error.h"

enum debug_register {
    DEBUG_RAX,
    DEBUG_RBX,
    DEBUG_RCX,
    DEBUG_RDX,
    DEBUG_RSI,
    DEBUG_RDI,
    DEBUG_RBP,
    DEBUG_RSP,
    DEBUG_R8,
    DEBUG_R15 = DEBUG_R8 + 7,
    DEBUG_RIP,
    DEBUG_RFLAGS,
    DEBUG_CS,
    DEBUG_SS,
    DEBUG_DS,
    DEBUG_ES,
    DEBUG_FS,
    DEBUG_GS,
    DEBUG_FCTRL, /* from here to DEBUG_FOP the x87's, as FSAVE keeps them */
    DEBUG_FSTAT,
    DEBUG_FTAG,
    DEBUG_FISEG,
    DEBUG_FIOFF,
    DEBUG_FOSEG,
    DEBUG_FOOFF,
    DEBUG_FOP,
    DEBUG_FS_BASE,
    DEBUG_GS_BASE,
    DEBUG_CR0,
    DEBUG_CR2,
    DEBUG_CR3,
    DEBUG_CR4,
    DEBUG_EFER,
    DEBUG_NREGISTERS
};

#define DEBUG_NST      8
#define DEBUG_ST_BYTES 10

struct debug_registers {
    uint64_t value[DEBUG_NREGISTERS];
    uint8_t st[DEBUG_NST][DEBUG_ST_BYTES]; /* st(0)… */
};

int debug_registers_get(int vcpu_fd, struct debug_registers *registers, struct error *err);

/* Writes what differs from what the vCPU has. -EINVAL for a selector, whose descriptor would have
 * to change with it, and for what KVM refuses (a CR0, CR4 or EFER that cannot be). */
int debug_registers_set(int vcpu_fd, const struct debug_registers *registers, struct error *err);

#endif
