/* SPDX-License-Identifier: MIT
 *
 * KVM_GET_REGS and KVM_GET_SREGS (api.rst 4.11, 4.13), printed. */
#include "vmm/x86/registers.h"

#include <inttypes.h>
#include <linux/kvm.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vmm/kvm.h"

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    if (length > 0) {
        size_t used = (size_t)length < text->left ? (size_t)length : text->left - 1;

        text->at += used;
        text->left -= used;
    }
}

static void put_general(struct text *text, const struct kvm_regs *regs)
{
    const struct {
        const char *name;
        uint64_t value;
    } list[] = {
        {"RAX", regs->rax}, {"RBX", regs->rbx}, {"RCX", regs->rcx}, {"RDX", regs->rdx},
        {"RSI", regs->rsi}, {"RDI", regs->rdi}, {"RBP", regs->rbp}, {"RSP", regs->rsp},
        {"R8 ", regs->r8},  {"R9 ", regs->r9},  {"R10", regs->r10}, {"R11", regs->r11},
        {"R12", regs->r12}, {"R13", regs->r13}, {"R14", regs->r14}, {"R15", regs->r15},
    };

    for (unsigned i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        put(text, "%s=%016" PRIx64 "%c", list[i].name, list[i].value, i % 4 == 3 ? '\n' : ' ');
}

/* Flags in the layout of a descriptor's second word, as QEMU prints them. */
static void put_segment(struct text *text, const char *name, const struct kvm_segment *segment)
{
    uint32_t flags = (uint32_t)segment->type << 8 | (uint32_t)segment->s << 12 |
                     (uint32_t)segment->dpl << 13 | (uint32_t)segment->present << 15 |
                     (uint32_t)segment->avl << 20 | (uint32_t)segment->l << 21 |
                     (uint32_t)segment->db << 22 | (uint32_t)segment->g << 23;

    put(text, "%-3s=%04x %016" PRIx64 " %08x %08x\n", name, segment->selector,
        (uint64_t)segment->base, segment->limit, flags);
}

static void put_system(struct text *text, const struct kvm_sregs *sregs)
{
    put_segment(text, "ES", &sregs->es);
    put_segment(text, "CS", &sregs->cs);
    put_segment(text, "SS", &sregs->ss);
    put_segment(text, "DS", &sregs->ds);
    put_segment(text, "FS", &sregs->fs);
    put_segment(text, "GS", &sregs->gs);
    put_segment(text, "LDT", &sregs->ldt);
    put_segment(text, "TR", &sregs->tr);
    put(text, "GDT=     %016" PRIx64 " %08x\n", (uint64_t)sregs->gdt.base, sregs->gdt.limit);
    put(text, "IDT=     %016" PRIx64 " %08x\n", (uint64_t)sregs->idt.base, sregs->idt.limit);
    put(text,
        "CR0=%08" PRIx64 " CR2=%016" PRIx64 " CR3=%016" PRIx64 " CR4=%08" PRIx64 "\n"
        "CR8=%" PRIx64 " EFER=%016" PRIx64 " APIC=%016" PRIx64 "\n",
        (uint64_t)sregs->cr0, (uint64_t)sregs->cr2, (uint64_t)sregs->cr3, (uint64_t)sregs->cr4,
        (uint64_t)sregs->cr8, (uint64_t)sregs->efer, (uint64_t)sregs->apic_base);
}

int registers_text(int vcpu_fd, unsigned cpu, char *buffer, size_t buffer_bytes, struct error *err)
{
    struct text text = {.at = buffer, .left = buffer_bytes};
    struct kvm_regs regs;
    struct kvm_sregs sregs;
    int ret;

    if (buffer_bytes)
        buffer[0] = '\0';
    ret = KVM_IOCTL(vcpu_fd, KVM_GET_REGS, &regs, err);
    if (ret)
        return ret;
    ret = KVM_IOCTL(vcpu_fd, KVM_GET_SREGS, &sregs, err);
    if (ret)
        return ret;
    if (!buffer_bytes)
        return 0;
    put(&text, "CPU#%u\n", cpu);
    put_general(&text, &regs);
    put(&text, "RIP=%016" PRIx64 " RFL=%08" PRIx64 " CPL=%u\n", (uint64_t)regs.rip,
        (uint64_t)regs.rflags, sregs.ss.dpl);
    put_system(&text, &sregs);
    return 0;
}

int registers_rip(int vcpu_fd, uint64_t *rip)
{
    struct kvm_regs regs;
    int ret = KVM_IOCTL(vcpu_fd, KVM_GET_REGS, &regs, NULL);

    if (!ret)
        *rip = regs.rip;
    return ret;
}
