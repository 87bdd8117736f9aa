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
#include "vmm/x86/clock_state.h"

#define VCPU_STATE_MAX_MSRS 512

/* The MSRs that KVM lists, MTRRs and machine-check banks, as far as a vCPU can read them; TSC and
 * TSC deadline excepted, which have an order of their own, and Hyper-V's two clocks, which run by
 * themselves. */
struct vcpu_state_msrs {
    uint32_t count;
    uint32_t index[VCPU_STATE_MAX_MSRS];
};

/* Asks KVM for its list and tries which of them can be read (api.rst 4.3 KVM_GET_MSR_INDEX_LIST):
 * some hundred ioctls. The answer is the same for all vCPUs of a machine, once they have their
 * CPUID. */
int vcpu_state_list_msrs(const struct kvm *kvm, int vcpu_fd, struct vcpu_state_msrs *msrs,
                         struct error *err);

/* Reading this makes KVM process INIT and SIPI that are pending, which changes other state: it is
 * read first, for all vCPUs. */
int vcpu_state_mp_state(int vcpu_fd, uint32_t *mp_state, struct error *err);

int vcpu_state_save(const struct kvm *kvm, const struct vcpu_state_msrs *msrs, int vcpu_fd,
                    unsigned cpu, uint32_t mp_state, struct state_writer *writer,
                    struct error *err);

struct vcpu_state_time {
    uint64_t tsc_khz;
    const struct clock_state *clock; /* applied already */
    bool tsc_ignored;                /* out: this host does not let the TSC be set */
};

int vcpu_state_load(const struct kvm *kvm, int vcpu_fd, unsigned cpu, struct vcpu_state_time *time,
                    struct state_reader *root, struct error *err);

/* Makes KVM tell of exceptions and triple faults that are pending. The VM has no vCPU yet. */
int vcpu_state_enable_events(const struct kvm *kvm, int vm_fd, struct error *err);
int vcpu_state_save_events(int vcpu_fd, struct state_writer *writer, struct error *err);
/* -ENOTSUP names what is pending and this host's KVM cannot take. */
int vcpu_state_load_events(const struct kvm *kvm, int vcpu_fd, struct state_reader *node,
                           struct error *err);

/* Property "msrs": (index, value high, value low) cells. */
int vcpu_state_save_msrs(const struct vcpu_state_msrs *msrs, int vcpu_fd,
                         struct state_writer *writer, struct error *err);
/* An MSR that this host lacks may be skipped where its value is 0; otherwise -ENOTSUP names it. */
int vcpu_state_load_msrs(int vcpu_fd, struct state_reader *node, struct error *err);

#endif
