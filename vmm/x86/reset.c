/* SPDX-License-Identifier: MIT
 *
 * Entry state as the PVH boot ABI, Multiboot (section 3.2), the Linux boot protocol and the SDM
 * (vol. 3, 9.1, 3.4.3) have it. */
#include "vmm/x86/reset.h"

#include <linux/kvm.h>
#include <string.h>

#include "vmm/kvm.h"
#include "vmm/loader_long.h"

#define CR0_PE          0x1ull
#define CR0_ET          0x10ull
#define CR0_PG          0x80000000ull
#define CR4_PAE         0x20ull
#define EFER_LME        0x100ull
#define EFER_LMA        0x400ull
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

static void set_flat(struct kvm_sregs *sregs, uint16_t code, uint16_t data, uint16_t tss)
{
    sregs->cs = flat_segment(code, TYPE_CODE_RX);
    sregs->ds = flat_segment(data, TYPE_DATA_RW);
    sregs->es = sregs->fs = sregs->gs = sregs->ss = sregs->ds;
    sregs->tr = (struct kvm_segment){
        .limit = TSS_LIMIT, .selector = tss, .type = TYPE_TSS_BUSY, .present = 1};
    sregs->ldt = (struct kvm_segment){.unusable = 1};
    sregs->gdt = (struct kvm_dtable){0};
    sregs->idt = (struct kvm_dtable){0};
    sregs->cr0 = CR0_PE | CR0_ET;
    sregs->cr3 = 0;
    sregs->cr4 = 0;
    sregs->efer = 0;
}

static void set_long(struct kvm_sregs *sregs, const struct loader_entry *entry)
{
    set_flat(sregs, LOADER_LONG_CS, LOADER_LONG_DS, LOADER_LONG_TSS);
    sregs->cs.db = 0;
    sregs->cs.l = 1;
    sregs->gdt = (struct kvm_dtable){.base = entry->gdt, .limit = LOADER_LONG_GDT_BYTES - 1};
    sregs->cr3 = entry->page_map;
    sregs->cr4 = CR4_PAE;
    sregs->efer = EFER_LME | EFER_LMA;
    sregs->cr0 |= CR0_PG;
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
    regs.rip = entry->address;
    switch (entry->mode) {
    case LOADER_REAL_MODE:
        set_real_mode(&sregs, entry->address);
        regs.rip = entry->address & PARAGRAPH_OFFSETS;
        break;
    case LOADER_PROTECTED:
        set_flat(&sregs, SELECTOR_CODE, SELECTOR_DATA, SELECTOR_TSS);
        regs.rax = entry->eax;
        regs.rbx = entry->info;
        break;
    case LOADER_LONG:
        set_long(&sregs, entry);
        regs.rsi = entry->info;
        break;
    }
    ret = KVM_IOCTL(vcpu_fd, KVM_SET_SREGS, &sregs, err);
    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_REGS, &regs, err);
    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_MP_STATE, &runnable, err);
    return ret;
}
