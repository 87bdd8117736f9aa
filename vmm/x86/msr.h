/* SPDX-License-Identifier: MIT
 *
 * One MSR of a vCPU at a time (api.rst 4.18, 4.19; numbers: SDM vol. 4). */
#ifndef VMM_X86_MSR_H
#define VMM_X86_MSR_H

#include <stdint.h>

#include "vmm/base/error.h"

#define MSR_TSC          0x10u
#define MSR_TSC_DEADLINE 0x6e0u

/* -ENOENT where KVM does not have the MSR, or refuses the value. */
int msr_read(int vcpu_fd, uint32_t index, uint64_t *value, struct error *err);
int msr_write(int vcpu_fd, uint32_t index, uint64_t value, struct error *err);

#endif
