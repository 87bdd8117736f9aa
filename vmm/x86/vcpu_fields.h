/* SPDX-License-Identifier: MIT
 *
 * Property names for the members of KVM's vCPU structures (arch/x86/include/uapi/asm/kvm.h), and
 * what saving and loading share. */
#ifndef VMM_X86_VCPU_FIELDS_H
#define VMM_X86_VCPU_FIELDS_H

#include <stddef.h>

#include "vmm/kvm.h"
#include "vmm/state.h"

#define VCPU_REGS_NFIELDS    18
#define VCPU_SEGMENTS        8
#define VCPU_SEGMENT_NFIELDS 12
#define VCPU_SREGS_NFIELDS   12
#define VCPU_PDPTRS_NFIELDS  1
#define VCPU_DEBUG_NFIELDS   4

/* The legacy area and header, and as much as KVM_GET_XSAVE gives (api.rst 4.42). */
#define VCPU_XSAVE_MIN_BYTES 4096u
/* Property "xcrs": (index, value high, value low). */
#define VCPU_CELLS_PER_XCR 3

/* No guest is offered nested virtualization (cpuid.c), and no state of it is saved: -ENOTSUP where
 * one uses it all the same. */
struct kvm_sregs;
int vcpu_state_refuse_nested(const struct kvm_sregs *sregs, struct error *err);

/* Size of this host's XSAVE area. */
size_t vcpu_state_xsave_bytes(const struct kvm *kvm);
/* "cpu@N" */
void vcpu_state_node_name(unsigned cpu, char *name, size_t name_bytes);

struct vcpu_segment_place {
    const char *name;
    size_t offset; /* in struct kvm_sregs */
};

extern const struct state_field vcpu_regs_fields[VCPU_REGS_NFIELDS];
extern const struct vcpu_segment_place vcpu_segments[VCPU_SEGMENTS];
extern const struct state_field vcpu_segment_fields[VCPU_SEGMENT_NFIELDS]; /* of kvm_segment */
extern const struct state_field vcpu_sregs_fields[VCPU_SREGS_NFIELDS];     /* the rest of it */
extern const struct state_field vcpu_pdptrs_fields[VCPU_PDPTRS_NFIELDS];   /* of kvm_sregs2 */
extern const struct state_field vcpu_debug_fields[VCPU_DEBUG_NFIELDS];

#endif
