/* SPDX-License-Identifier: MIT
 *
 * One vCPU's state, saved as node /cpu@N and loaded from it. The vCPU must be parked. */
#ifndef VMM_X86_VCPU_STATE_H
#define VMM_X86_VCPU_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/state.h"

#define VCPU_STATE_MAX_MSRS 512

/* The MSRs that KVM lists and a vCPU can read, TSC and TSC deadline excepted. */
struct vcpu_state_msrs {
    bool known;
    uint32_t count;
    uint32_t index[VCPU_STATE_MAX_MSRS];
};

#endif
