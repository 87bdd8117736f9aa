/* SPDX-License-Identifier: MIT
 *
 * Selectors, control bits and addresses that C and assembly share. Constants: Intel SDM volume 3,
 * sections 2.5 (control registers) and 3.4 (descriptors). */
#ifndef GUEST_KERNEL_LAYOUT_H
#define GUEST_KERNEL_LAYOUT_H

#define CR0_PE   0x1
#define CR0_WP   0x10000
#define CR0_PG   0x80000000
#define CR4_PAE  0x20
#define MSR_EFER 0xc0000080
#define EFER_LME 0x100

#define SELECTOR_KCODE  0x08
#define SELECTOR_KDATA  0x10
#define SELECTOR_BOOT32 0x18 /* in the boot GDT only */
#define SELECTOR_UDATA  0x18
#define SELECTOR_UCODE  0x20
#define SELECTOR_TSS    0x28 /* of CPU 0; the next CPU's is 16 further */

#define KERNEL_STACK_BYTES 0x2000
#define USER_STACK_BYTES   0x4000

/* RAM below this stays with the kernel: page 0 is not mapped so that a null pointer faults, and
 * the application processors start in the page of the trampoline. */
#define LOW_RESERVED_END 0x8000
#define TRAMPOLINE       0x7000

/* Interrupt vectors. The IDT ends after VECTOR_SPURIOUS. */
#define VECTOR_PIC      0x20
#define VECTOR_TIMER    0x40
#define VECTOR_SPURIOUS 0x4f
#define VECTOR_COUNT    0x50

#endif
