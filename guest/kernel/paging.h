/* SPDX-License-Identifier: MIT
 *
 * The page tables for all RAM, one to one, and the list of RAM left for workloads. */
#ifndef GUEST_KERNEL_PAGING_H
#define GUEST_KERNEL_PAGING_H

#include <stdint.h>

/* Where the local APIC answers, mapped for ring 0. */
#define PAGING_LAPIC  0xfee00000u
#define PAGING_IOAPIC 0xfec00000u

/* Builds the tables just above the image, loads CR3 and fills boot_info.free. Ends the guest with
 * GUEST_EXIT_NO_MEMORY where there is no room. Boot CPU, once. */
void paging_init(void);

/* CR3 for the other CPUs; below 4 GiB. */
uint64_t paging_root(void);

#endif
