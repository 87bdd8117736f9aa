/* SPDX-License-Identifier: MIT
 *
 * What machine is this? Fills boot_info from the PVH start info and the device tree. */
#ifndef GUEST_KERNEL_PLATFORM_H
#define GUEST_KERNEL_PLATFORM_H

#include <stdint.h>

/* `start_info` is the physical address that the loader left in EBX. Needs the boot page tables
 * (first 4 GiB mapped); nothing that it points to is needed afterwards. */
void platform_init(uint32_t start_info);

#endif
