/* SPDX-License-Identifier: MIT
 *
 * Entry state as the PVH boot ABI and the SDM (vol. 3, 9.1, 3.4.3) have it. */
#include "vmm/x86/reset.h"

#include <linux/kvm.h>
#include <string.h>

#include "vmm/kvm.h"

#define CR0_PE          0x1ull
#define CR0_ET          0x10ull
#define RFLAGS_RESERVED 0x2ull

/* Descriptor types, SDM vol. 3 tables 3-1 and 3-2. */
#define TYPE_DATA_RW      3
#define TYPE_CODE_RX      11
#define TYPE_TSS_BUSY     11
#define SELECTOR_CODE     0x08
#define SELECTOR_DATA     0x10
#define SELECTOR_TSS      0x18
#define FLAT_LIMIT        0xffffffffu
#define TSS_LIMIT         0x67
#define REAL_MODE_LIMIT   0xffffu
#define PARAGRAPH_SHIFT   4
#define PARAGRAPH_OFFSETS 0xfull

static struct kvm_segment flat_segment(uint16_t selector, uint8_t type)
{
    return (struct kvm_segment){.limit = FLAT_LIMIT,
                                .selector = selector,
                                .type = type,
                                .present = 1,
                                .db = 1,
                                .s = 1,
                                .g = 1};
}

static void set_protected(struct kvm_sregs *sregs)
{
    struct kvm_segment data = flat_segment(SELECTOR_DATA, TYPE_DATA_RW);

    sregs->cs = flat_segment(SELECTOR_CODE, TYPE_CODE_RX);
    sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = data;
    sregs->tr = (struct kvm_segment){
        .limit = TSS_LIMIT, .selector = SELECTOR_TSS, .type = TYPE_TSS_BUSY, .present = 1};
    sregs->ldt = (struct kvm_segment){.unusable = 1};
    sregs->gdt = (struct kvm_dtable){0};
    sregs->idt = (struct kvm_dtable){0};
    sregs->cr0 = CR0_PE | CR0_ET;
    sregs->cr3 = 0;
    sregs->cr4 = 0;
    sregs->efer = 0;
}

/* KVM's reset values are real mode already, but CS:IP at the BIOS. */
static void set_real_mode(struct kvm_sregs *sregs, gpa_t address)
{
    sregs->cs.selector = (uint16_t)(address >> PARAGRAPH_SHIFT);
    sregs->cs.base = (uint64_t)sregs->cs.selector << PARAGRAPH_SHIFT;
    sregs->cs.limit = REAL_MODE_LIMIT;
}

int reset_boot_vcpu(int vcpu_fd, const struct loader_entry *entry, struct error *err)
{
    struct kvm_mp_state runnable = {.mp_state = KVM_MP_STATE_RUNNABLE};
    struct kvm_regs regs;
    struct kvm_sregs sregs;
    int ret;

    ret = KVM_IOCTL(vcpu_fd, KVM_GET_SREGS, &sregs, err);
    if (ret)
        return ret;
    memset(&regs, 0, sizeof(regs));
    regs.rflags = RFLAGS_RESERVED;
    if (entry->mode == LOADER_REAL_MODE) {
        set_real_mode(&sregs, entry->address);
        regs.rip = entry->address & PARAGRAPH_OFFSETS;
    } else {
        set_protected(&sregs);
        regs.rip = entry->address;
        regs.rbx = entry->start_info;
    }
    ret = KVM_IOCTL(vcpu_fd, KVM_SET_SREGS, &sregs, err);
    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_REGS, &regs, err);
    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_MP_STATE, &runnable, err);
    return ret;
}
