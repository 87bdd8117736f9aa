/* SPDX-License-Identifier: MIT
 *
 * What of a debugger's means works on this host. KVM takes every request; but an emulated or
 * paravirtual CPU may neither leave the guest at an int3 nor heed debug registers, and a breakpoint
 * there would be an exception that the guest does not expect. */
#ifndef VMM_X86_DEBUG_PROBE_H
#define VMM_X86_DEBUG_PROBE_H

#include <stdbool.h>

#include "vmm/kvm.h"

struct debug_support {
    bool software; /* int3 leaves KVM_RUN */
    bool hardware; /* so do debug registers */
    bool hold_irq; /* KVM_GUESTDBG_BLOCKIRQ */
};

/* Tries each in a VM of its own, a few instructions long. -errno where that cannot be made. */
int debug_probe(const struct kvm *kvm, struct debug_support *support, struct error *err);

#endif
