/* SPDX-License-Identifier: MIT
 *
 * Changing a name changes the format of saved states. */
#include "vmm/x86/vcpu_fields.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>

/* AMD APM vol. 2, 15.4; Intel SDM vol. 3, 23.7. */
#define EFER_SVME 0x1000ull
#define CR4_VMXE  0x2000ull

#define REG(member) STATE_FIELD(struct kvm_regs, member, #member)
const struct state_field vcpu_regs_fields[VCPU_REGS_NFIELDS] = {
    REG(rax), REG(rbx), REG(rcx), REG(rdx), REG(rsi), REG(rdi), REG(rsp), REG(rbp), REG(r8),
    REG(r9),  REG(r10), REG(r11), REG(r12), REG(r13), REG(r14), REG(r15), REG(rip), REG(rflags),
};

#define SEGMENT(member)                             \
    {                                               \
#member, offsetof(struct kvm_sregs, member) \
    }
const struct vcpu_segment_place vcpu_segments[VCPU_SEGMENTS] = {
    SEGMENT(cs), SEGMENT(ds), SEGMENT(es), SEGMENT(fs),
    SEGMENT(gs), SEGMENT(ss), SEGMENT(tr), SEGMENT(ldt),
};

#define PART(member) STATE_FIELD(struct kvm_segment, member, #member)
const struct state_field vcpu_segment_fields[VCPU_SEGMENT_NFIELDS] = {
    PART(base), PART(limit), PART(selector), PART(type), PART(present), PART(dpl),
    PART(db),   PART(s),     PART(l),        PART(g),    PART(avl),     PART(unusable),
};

#define SREG(member, name) STATE_FIELD(struct kvm_sregs, member, name)
const struct state_field vcpu_sregs_fields[VCPU_SREGS_NFIELDS] = {
    SREG(gdt.base, "gdt-base"),
    SREG(gdt.limit, "gdt-limit"),
    SREG(idt.base, "idt-base"),
    SREG(idt.limit, "idt-limit"),
    SREG(cr0, "cr0"),
    SREG(cr2, "cr2"),
    SREG(cr3, "cr3"),
    SREG(cr4, "cr4"),
    SREG(cr8, "cr8"),
    SREG(efer, "efer"),
    SREG(apic_base, "apic-base"),
    STATE_ARRAY(struct kvm_sregs, interrupt_bitmap, "interrupt-bitmap"),
};

const struct state_field vcpu_pdptrs_fields[VCPU_PDPTRS_NFIELDS] = {
    STATE_ARRAY(struct kvm_sregs2, pdptrs, "opt,pdptrs"),
};

const struct state_field vcpu_debug_fields[VCPU_DEBUG_NFIELDS] = {
    STATE_ARRAY(struct kvm_debugregs, db, "db"),
    STATE_FIELD(struct kvm_debugregs, dr6, "dr6"),
    STATE_FIELD(struct kvm_debugregs, dr7, "dr7"),
    STATE_FIELD(struct kvm_debugregs, flags, "debug-flags"),
};

int vcpu_state_refuse_nested(const struct kvm_sregs *sregs, struct error *err)
{
    const char *which = sregs->efer & EFER_SVME ? "SVM (EFER.SVME)"
                        : sregs->cr4 & CR4_VMXE ? "VMX (CR4.VMXE)"
                                                : NULL;

    return which ? error_set(err, ENOTSUP,
                             "the guest has switched %s on: nested virtualization cannot be moved",
                             which)
                 : 0;
}

size_t vcpu_state_xsave_bytes(const struct kvm *kvm)
{
    return kvm->xsave2_bytes > VCPU_XSAVE_MIN_BYTES ? kvm->xsave2_bytes : VCPU_XSAVE_MIN_BYTES;
}

void vcpu_state_node_name(unsigned cpu, char *name, size_t name_bytes)
{
    (void)snprintf(name, name_bytes, "cpu@%u", cpu);
}
