/* SPDX-License-Identifier: MIT
 *
 * Registers of the boot vCPU before its first instruction. */
#ifndef VMM_X86_RESET_H
#define VMM_X86_RESET_H

#include "vmm/base/error.h"
#include "vmm/loader.h"

/* Puts the vCPU at the entry: real mode with CS:IP at the address; 32-bit protected mode with flat
 * segments and paging off (Xen PVH boot ABI, docs/misc/pvh.pandoc, and Multiboot 3.2); or 64-bit
 * mode with paging on (Linux boot protocol). The other vCPUs stay as KVM made them: waiting for
 * INIT/SIPI. */
int reset_boot_vcpu(int vcpu_fd, const struct loader_entry *entry, struct error *err);

#endif
