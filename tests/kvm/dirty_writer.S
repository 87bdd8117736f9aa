/* SPDX-License-Identifier: MIT
 *
 * Guest code of the dirty-log tests: flat 32-bit protected mode, position-independent, linked into
 * the test as data.
 *
 *   esi  table of page addresses      ecx  their number
 *   ebp  state of the random sequence ebx  number of the store to come, less one
 *   esp  control block: +0 heartbeat (number of the last store), +4 stop after this store
 *
 * Stores ebx at the start of pseudo-random pages; halts when it reaches the limit. */
    .section .rodata
    .code32
    .globl dirty_writer_begin, dirty_writer_end
dirty_writer_begin:
1:  imul  $1664525, %ebp, %ebp
    add   $1013904223, %ebp
    mov   %ebp, %eax
    mul   %ecx
    mov   (%esi,%edx,4), %edi
    inc   %ebx
    mov   %ebx, (%edi)
    mov   %ebx, (%esp)
    cmp   4(%esp), %ebx
    jne   1b
    hlt
    jmp   1b
dirty_writer_end:

    .section .note.GNU-stack, "", @progbits
