/* SPDX-License-Identifier: MIT
 *
 * The state guest's ELF as bytes; STATE_GUEST_ELF comes from the build. */
    .section .rodata
    .balign 16
    .global state_guest_image
    .global state_guest_image_end
state_guest_image:
    .incbin STATE_GUEST_ELF
state_guest_image_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
