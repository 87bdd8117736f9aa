/* SPDX-License-Identifier: MIT
 *
 * The test guest's ELF as bytes; TESTGUEST_ELF comes from the build. */
    .section .rodata
    .balign 16
    .global embedded_guest_start
    .global embedded_guest_end
embedded_guest_start:
    .incbin TESTGUEST_ELF
embedded_guest_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
