/* SPDX-License-Identifier: MIT
 *
 * A vCPU that stores where it is told (mailbox.h). Linked into its VMM as data. It uses nothing
 * that a host which emulates ring 0 may lack: plain moves, arithmetic, rdtsc.
 *
 *   rbp  mailbox    r14  number of the last job    r9   stores made    r15  random state
 *   rsi  list       r13  its length                rbx  where in a page */
#include "guest/writer/mailbox.h"

    .section .rodata
    .code64
    .globl writer_code_start, writer_code_end
    .balign 16

    .macro stamp at
    rdtsc
    shl   $32, %rdx
    or    %rdx, %rax
    mov   %rax, \at(%rbp)
    .endm

writer_code_start:
wait:
    pause
    mov   WRITER_AT_JOB(%rbp), %rax
    cmp   %r14, %rax
    je    wait
    mov   %rax, %r14
    mov   WRITER_AT_LIST(%rbp), %rsi
    mov   WRITER_AT_NPAGES(%rbp), %r13
    mov   WRITER_AT_OFFSET(%rbp), %rbx
    mov   WRITER_AT_VALUE(%rbp), %rcx
    lea   (%rsi,%r13,8), %r8            /* end of the list */
    mov   WRITER_AT_KIND(%rbp), %rdi
    stamp WRITER_AT_BEGIN_TSC
    cmp   $WRITER_JOB_ROAM, %rdi
    je    roam
    cmp   %r8, %rsi
    je    done
list:
    mov   (%rsi), %rdi
    add   $8, %rsi
    mov   %rcx, (%rdi,%rbx)
    inc   %r9
    mov   %r9, WRITER_AT_STORES(%rbp)   /* the store itself is through */
    cmp   %r8, %rsi
    jne   list
done:
    stamp WRITER_AT_END_TSC
    mov   %r14, WRITER_AT_DONE(%rbp)
    jmp   wait

    /* The random state is a fraction of 2^64; times the length it chooses an entry. */
roam:
    mov   $6364136223846793005, %r10
    mov   $1442695040888963407, %r11
again:
    imul  %r10, %r15
    add   %r11, %r15
    mov   %r15, %rax
    mul   %r13
    mov   (%rsi,%rdx,8), %rdi
    inc   %r9
    mov   %r9, (%rdi,%rbx)
    mov   %r9, WRITER_AT_STORES(%rbp)
    cmp   %r14, WRITER_AT_STOP(%rbp)
    jne   again
    jmp   done
writer_code_end:

    .section .note.GNU-stack, "", @progbits
