/* SPDX-License-Identifier: MIT
 *
 * What a 64-bit entry needs in memory: page tables that map the first 4 GiB one to one, and a GDT
 * with the selectors of the Linux boot protocol. Internal to loader*.c and x86/reset.c. */
#ifndef VMM_LOADER_LONG_H
#define VMM_LOADER_LONG_H

#include "vmm/loader.h"

/* Linux Documentation/arch/x86/boot.rst, "64-bit Boot Protocol": __BOOT_CS and __BOOT_DS; a TSS
 * behind them, for VMX wants one loaded. */
#define LOADER_LONG_CS  0x10u
#define LOADER_LONG_DS  0x18u
#define LOADER_LONG_TSS 0x20u
/* Of the GDT, the TSS's 16 bytes included. */
#define LOADER_LONG_GDT_BYTES 0x30u

/* Writes both; sets the entry's mode, gdt and page_map. */
int loader_long_write(struct memory *memory, struct loader_entry *entry, struct error *err);

#endif
