/* SPDX-License-Identifier: MIT
 *
 * Which clock the guest goes by. */
#ifndef GUEST_KERNEL_CLOCK_SOURCE_H
#define GUEST_KERNEL_CLOCK_SOURCE_H

/* Decides: kvmclock where the hypervisor offers it, else the TSC with a frequency from the device
 * tree, CPUID or the PIT. Boot CPU, once, interrupts off. */
void clock_source_init(void);
/* Registers this CPU's clock page. Every CPU, before it reads the clock. */
void clock_source_init_cpu(unsigned cpu);

#endif
