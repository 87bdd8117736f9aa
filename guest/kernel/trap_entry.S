/* SPDX-License-Identifier: MIT
 *
 * Interrupt and exception entries: each vector's stub leaves vector and error code on the stack,
 * the common part the general registers, in the order of struct trap_frame (kernel/trap.h).
 */
#include "guest/kernel/layout.h"

    .section .text
    .code64
    .balign 16
    .global trap_stubs
trap_stubs:
    .set vector, 0
    .rept VECTOR_COUNT
    .balign 16
    /* The CPU itself pushes an error code for these (SDM volume 3, table 6-1). */
    .if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || \
          vector == 29 || vector == 30)
    pushq $0
    .endif
    pushq $vector
    jmp trap_common
    .set vector, vector + 1
    .endr

    .balign 16
trap_common:
    pushq %rax
    pushq %rbx
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %rbp
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    cld
    movq %rsp, %rdi
    call trap_dispatch
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rbp
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rbx
    popq %rax
    addq $16, %rsp
    iretq

    .section .note.GNU-stack, "", @progbits
