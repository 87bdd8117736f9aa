/* SPDX-License-Identifier: MIT
 *
 * Where an application processor starts after its SIPI: real mode, CS:IP = TRAMPOLINE. Copied
 * there by smp.c, which fills in the four words at the end before each start.
 */
#include "guest/kernel/layout.h"

#define HERE(label) (TRAMPOLINE + (label) - trampoline_start)

    .section .text
    .code16
    .global trampoline_start
trampoline_start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl HERE(gdt_pointer)
    movl $CR0_PE, %eax
    movl %eax, %cr0
    ljmpl $SELECTOR_BOOT32, $HERE(protected)
    .code32
protected:
    movl $SELECTOR_KDATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %cr4, %eax
    orl $CR4_PAE, %eax
    movl %eax, %cr4
    movl HERE(trampoline_cr3), %eax
    movl %eax, %cr3
    movl $MSR_EFER, %ecx
    rdmsr
    orl $EFER_LME, %eax
    wrmsr
    movl $(CR0_PG | CR0_WP | CR0_PE), %eax
    movl %eax, %cr0
    ljmp $SELECTOR_KCODE, $HERE(long_mode)
    .code64
long_mode:
    movq HERE(trampoline_stack), %rsp
    movl HERE(trampoline_cpu), %edi
    xorl %ebp, %ebp
    movl $smp_entry, %eax
    call *%rax
    hlt

    .balign 8
gdt_pointer:
    .word 31
    .long boot_gdt
    .balign 8
    .global trampoline_cr3, trampoline_stack, trampoline_cpu, trampoline_end
trampoline_cr3:
    .quad 0
trampoline_stack:
    .quad 0
trampoline_cpu:
    .quad 0
trampoline_end:

    .section .note.GNU-stack, "", @progbits
