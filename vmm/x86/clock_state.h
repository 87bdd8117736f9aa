/* SPDX-License-Identifier: MIT
 *
 * Guest time: the VM's clock (node /clock) and each vCPU's TSC. The blackout counts as time that
 * passed; time never goes back. */
#ifndef VMM_X86_CLOCK_STATE_H
#define VMM_X86_CLOCK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/state.h"

/* Clocks of two hosts may be wrong, a snapshot may be old: the guest sees no longer leap. */
#define CLOCK_STATE_MAX_ELAPSED_NS (3600ull * 1000 * 1000 * 1000)

/* What the source saved, and what this host's KVM said right after it was set. */
struct clock_state {
    uint64_t clock_ns;    /* KVM_GET_CLOCK */
    uint64_t realtime_ns; /* CLOCK_REALTIME at that moment, by KVM where it can */
    uint64_t host_tsc;    /* with has_host_tsc */
    bool has_host_tsc;    /* KVM_CLOCK_REALTIME and KVM_CLOCK_HOST_TSC at the source */
    bool has_here;        /* the same here, and the guest's TSC is not scaled */
    uint64_t here_clock_ns, here_host_tsc;
};

/* One vCPU's TSC. */
struct clock_state_tsc {
    uint64_t value;       /* MSR_IA32_TSC */
    uint64_t realtime_ns; /* when it was read */
    uint64_t offset;      /* KVM_VCPU_TSC_OFFSET, with has_offset */
    bool has_offset;
};

int clock_state_save(int vm_fd, struct state_writer *writer, struct error *err);
int clock_state_load(struct clock_state *clock, struct state_reader *root, struct error *err);
/* KVM_SET_CLOCK. Done once before the TSCs, which are computed from it, and once after them, for
 * setting a TSC may move KVM's base. */
int clock_state_apply(const struct kvm *kvm, int vm_fd, uint64_t tsc_khz, struct clock_state *clock,
                      struct error *err);

int clock_state_read_tsc(int vcpu_fd, struct clock_state_tsc *tsc, struct error *err);
/* Sets a vCPU's TSC to where it would be now. Hosts that ignore this (they report success) are
 * found by reading back: *ignored. */
int clock_state_apply_tsc(int vcpu_fd, uint64_t tsc_khz, const struct clock_state *clock,
                          const struct clock_state_tsc *tsc, bool *ignored, struct error *err);

#endif
