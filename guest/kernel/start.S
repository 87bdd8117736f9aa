/* SPDX-License-Identifier: MIT
 *
 * From the PVH entry (32-bit protected mode, paging off, EBX = hvm_start_info; Xen
 * docs/misc/pvh.pandoc) to kernel_main() in long mode. The tables of the first moments are data of
 * the image, ready made: where ring 0 is emulated, filling them would cost milliseconds.
 */
#include "guest/kernel/layout.h"

    .section .text
    .code32
    .global pvh_start
pvh_start:
    cli
    cld
    lgdt boot_gdt_pointer
    movl %cr4, %eax
    orl $CR4_PAE, %eax
    movl %eax, %cr4
    movl $boot_pml4, %eax
    movl %eax, %cr3
    movl $MSR_EFER, %ecx
    rdmsr
    orl $EFER_LME, %eax
    wrmsr
    movl %cr0, %eax
    orl $(CR0_PG | CR0_WP | CR0_PE), %eax
    movl %eax, %cr0
    ljmp $SELECTOR_KCODE, $1f
    .code64
1:  movl $SELECTOR_KDATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    leaq kernel_stacks + KERNEL_STACK_BYTES(%rip), %rsp
    xorl %ebp, %ebp
    movl %ebx, %edi
    call kernel_main
2:  cli
    hlt
    jmp 2b

/* void enter_user(entry, stack, argument): leaves ring 0 for good. */
    .global enter_user
enter_user:
    movl $(SELECTOR_UDATA | 3), %eax
    movl %eax, %ds
    movl %eax, %es
    pushq %rax
    subq $8, %rsi /* as a call would leave it */
    pushq %rsi
    /* IF, and IOPL 3: QEMU's emulated SVM heeds the TSS bitmap only while the TSS is not busy, which a
     * restored one always is; where IOPL is not honoured the bitmap does it alone. */
    pushq $0x3202
    pushq $(SELECTOR_UCODE | 3)
    pushq %rdi
    movq %rdx, %rdi
    xorl %ebp, %ebp
    iretq

    .section .data.boot, "aw"
    .balign 8
    .global boot_gdt
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff /* 64-bit code, at SELECTOR_KCODE */
    .quad 0x00cf93000000ffff /* data, at SELECTOR_KDATA */
    .quad 0x00cf9b000000ffff /* 32-bit code, for the trampoline */
    .global boot_gdt_pointer
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .long boot_gdt

/* The first 4 GiB one to one in 2 MiB pages, present, writable, accessed and dirty. */
    .balign 4096
boot_pml4:
    .quad boot_pdpt + 0x23
    .fill 511, 8, 0
boot_pdpt:
    .quad boot_pd + 0x23, boot_pd + 0x1023, boot_pd + 0x2023, boot_pd + 0x3023
    .fill 508, 8, 0
boot_pd:
    .set address, 0
    .rept 2048
    .quad address + 0xe3
    .set address, address + 0x200000
    .endr

    .section .note.GNU-stack, "", @progbits
