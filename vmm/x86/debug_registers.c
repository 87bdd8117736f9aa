/* SPDX-License-Identifier: MIT
 *
 * Over KVM_GET/SET_REGS, SREGS and FPU (api.rst 4.11 to 4.14, 4.22, 4.23). */
#include "vmm/x86/debug_registers.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

#include "vmm/kvm.h"

/* A tag of FSAVE: two bits a register. Valid, zero and special are not told apart: all hold
 * something. */
#define TAG_EMPTY 3u

struct whole {
    struct kvm_regs regs;
    struct kvm_sregs sregs;
    struct kvm_fpu fpu;
};

static int get_whole(int vcpu_fd, struct whole *whole, struct error *err)
{
    int ret = KVM_IOCTL(vcpu_fd, KVM_GET_REGS, &whole->regs, err);

    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_GET_SREGS, &whole->sregs, err);
    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_GET_FPU, &whole->fpu, err);
    return ret;
}

/* Where KVM keeps each of the 64-bit registers that a debugger may change. */
static void *place(struct whole *whole, unsigned which)
{
    struct kvm_regs *regs = &whole->regs;
    struct kvm_sregs *sregs = &whole->sregs;
    void *const places[DEBUG_NREGISTERS] = {
        [DEBUG_RAX] = &regs->rax,
        [DEBUG_RBX] = &regs->rbx,
        [DEBUG_RCX] = &regs->rcx,
        [DEBUG_RDX] = &regs->rdx,
        [DEBUG_RSI] = &regs->rsi,
        [DEBUG_RDI] = &regs->rdi,
        [DEBUG_RBP] = &regs->rbp,
        [DEBUG_RSP] = &regs->rsp,
        [DEBUG_R8] = &regs->r8,
        [DEBUG_R8 + 1] = &regs->r9,
        [DEBUG_R8 + 2] = &regs->r10,
        [DEBUG_R8 + 3] = &regs->r11,
        [DEBUG_R8 + 4] = &regs->r12,
        [DEBUG_R8 + 5] = &regs->r13,
        [DEBUG_R8 + 6] = &regs->r14,
        [DEBUG_R15] = &regs->r15,
        [DEBUG_RIP] = &regs->rip,
        [DEBUG_RFLAGS] = &regs->rflags,
        [DEBUG_FS_BASE] = &sregs->fs.base,
        [DEBUG_GS_BASE] = &sregs->gs.base,
        [DEBUG_CR0] = &sregs->cr0,
        [DEBUG_CR2] = &sregs->cr2,
        [DEBUG_CR3] = &sregs->cr3,
        [DEBUG_CR4] = &sregs->cr4,
        [DEBUG_EFER] = &sregs->efer,
    };

    return places[which];
}

static void show_selectors(const struct kvm_sregs *sregs, uint64_t *value)
{
    value[DEBUG_CS] = sregs->cs.selector;
    value[DEBUG_SS] = sregs->ss.selector;
    value[DEBUG_DS] = sregs->ds.selector;
    value[DEBUG_ES] = sregs->es.selector;
    value[DEBUG_FS] = sregs->fs.selector;
    value[DEBUG_GS] = sregs->gs.selector;
}

/* FXSAVE has a bit for each register that is not empty; pointers have 64 bits and no segments, and
 * are cut as gdb cuts them. */
static void show_fpu(const struct kvm_fpu *fpu, struct debug_registers *registers)
{
    uint64_t *value = registers->value;

    value[DEBUG_FCTRL] = fpu->fcw;
    value[DEBUG_FSTAT] = fpu->fsw;
    for (unsigned i = 0; i < DEBUG_NST; i++) {
        if (!(fpu->ftwx & 1u << i))
            value[DEBUG_FTAG] |= (uint64_t)TAG_EMPTY << 2 * i;
        memcpy(registers->st[i], fpu->fpr[i], DEBUG_ST_BYTES);
    }
    value[DEBUG_FISEG] = fpu->last_ip >> 32 & 0xffff;
    value[DEBUG_FIOFF] = fpu->last_ip & UINT32_MAX;
    value[DEBUG_FOSEG] = fpu->last_dp >> 32 & 0xffff;
    value[DEBUG_FOOFF] = fpu->last_dp & UINT32_MAX;
    value[DEBUG_FOP] = fpu->last_opcode;
}

static void show(struct whole *whole, struct debug_registers *registers)
{
    memset(registers, 0, sizeof(*registers));
    for (unsigned i = 0; i < DEBUG_NREGISTERS; i++) {
        const void *from = place(whole, i);

        if (from)
            memcpy(&registers->value[i], from, sizeof(uint64_t));
    }
    show_selectors(&whole->sregs, registers->value);
    show_fpu(&whole->fpu, registers);
}

int debug_registers_get(int vcpu_fd, struct debug_registers *registers, struct error *err)
{
    struct whole whole;
    int ret = get_whole(vcpu_fd, &whole, err);

    if (!ret)
        show(&whole, registers);
    return ret;
}

static void take_fpu(struct kvm_fpu *fpu, const struct debug_registers *registers)
{
    const uint64_t *value = registers->value;

    fpu->fcw = (uint16_t)value[DEBUG_FCTRL];
    fpu->fsw = (uint16_t)value[DEBUG_FSTAT];
    fpu->ftwx = 0;
    for (unsigned i = 0; i < DEBUG_NST; i++) {
        if ((value[DEBUG_FTAG] >> 2 * i & TAG_EMPTY) != TAG_EMPTY)
            fpu->ftwx = (uint8_t)(fpu->ftwx | 1u << i);
        memcpy(fpu->fpr[i], registers->st[i], DEBUG_ST_BYTES);
    }
    fpu->last_ip = (value[DEBUG_FIOFF] & UINT32_MAX) | (value[DEBUG_FISEG] & 0xffff) << 32;
    fpu->last_dp = (value[DEBUG_FOOFF] & UINT32_MAX) | (value[DEBUG_FOSEG] & 0xffff) << 32;
    fpu->last_opcode = (uint16_t)value[DEBUG_FOP];
}

static bool differs(const uint64_t *a, const uint64_t *b, unsigned first, unsigned last)
{
    return memcmp(&a[first], &b[first], (last - first + 1) * sizeof(*a)) != 0;
}

int debug_registers_set(int vcpu_fd, const struct debug_registers *registers, struct error *err)
{
    struct debug_registers old;
    struct whole whole;
    int ret = get_whole(vcpu_fd, &whole, err);

    if (ret)
        return ret;
    show(&whole, &old);
    if (differs(old.value, registers->value, DEBUG_CS, DEBUG_GS))
        return error_set(err, EINVAL, "a segment's selector cannot be changed");
    for (unsigned i = 0; i < DEBUG_NREGISTERS; i++) {
        void *to = place(&whole, i);

        if (to)
            memcpy(to, &registers->value[i], sizeof(uint64_t));
    }
    /* Each only where it must be: KVM_SET_REGS, for one, forgets an exception that is pending. */
    if (differs(old.value, registers->value, DEBUG_FS_BASE, DEBUG_EFER))
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_SREGS, &whole.sregs, err);
    if (!ret && differs(old.value, registers->value, DEBUG_RAX, DEBUG_RFLAGS))
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_REGS, &whole.regs, err);
    if (!ret && (differs(old.value, registers->value, DEBUG_FCTRL, DEBUG_FOP) ||
                 memcmp(old.st, registers->st, sizeof(old.st)) != 0)) {
        take_fpu(&whole.fpu, registers);
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_FPU, &whole.fpu, err);
    }
    return ret;
}
