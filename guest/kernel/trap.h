/* SPDX-License-Identifier: MIT
 *
 * Exceptions, interrupts and the calls that ring 3 makes by `ud2`. */
#ifndef GUEST_KERNEL_TRAP_H
#define GUEST_KERNEL_TRAP_H

#include <stdint.h>

/* As trap_entry.S and the CPU leave it on the stack, lowest address first. */
struct trap_frame {
    uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rbp, rdi, rsi, rdx, rcx, rbx, rax;
    uint64_t vector, error;
    uint64_t rip, cs, rflags, rsp, ss;
};

/* Fills the IDT, which all CPUs share. Boot CPU, once. */
void trap_init(void);
/* Loads the IDT on this CPU. */
void trap_load(void);
/* Called by trap_entry.S only, interrupts off. */
void trap_dispatch(struct trap_frame *frame);

#endif
