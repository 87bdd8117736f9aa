/* SPDX-License-Identifier: MIT
 *
 * GDT and one TSS per CPU. The TSS's I/O permission bitmap is what lets ring 3 reach the console,
 * the exit port and the probe; IOPL 3 does so too, and neither works on every KVM. */
#ifndef GUEST_KERNEL_SEGMENTS_H
#define GUEST_KERNEL_SEGMENTS_H

#include <stdint.h>

/* Prepares the descriptors of all CPUs and the bitmap from boot_info. Boot CPU, once. */
void segments_init(void);
/* Loads GDT, data segments and TSS on CPU `cpu`, which is the one that runs this. */
void segments_load(unsigned cpu);

/* The CPU that runs this, told by its kernel stack. Ring 0 only. */
unsigned segments_this_cpu(void);
/* Address just above the kernel stack of a CPU. */
uint64_t segments_stack_top(unsigned cpu);

#endif
