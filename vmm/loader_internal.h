/* SPDX-License-Identifier: MIT
 *
 * What the loaders share: the low memory map, the PVH start_info, and the names of formats.
 * Internal to loader_*.c.
 *
 *   0x06000  start_info, module list, module name (PVH boot ABI, Xen
 *            xen/include/public/arch-x86/hvm/start_info.h)
 *   0x06100  memory map
 *   0x08000  left to the guest for starting its other vCPUs (to 0x9fff)
 *   0x20000  command line
 *   0x30000  device tree (to 0x6ffff at most)
 */
#ifndef VMM_LOADER_INTERNAL_H
#define VMM_LOADER_INTERNAL_H

#include <stdbool.h>

#include "vmm/loader.h"
#include "vmm/machine_tree.h"

#define LOADER_START_INFO    0x6000u
#define LOADER_MODULES       0x6040u
#define LOADER_MODULE_NAME   0x6080u
#define LOADER_MEMMAP        0x6100u
#define LOADER_INFO_END      0x7000u
#define LOADER_CMDLINE       0x20000u
#define LOADER_CMDLINE_END   0x21000u
#define LOADER_FDT           0x30000u
#define LOADER_FDT_MAX_BYTES MACHINE_TREE_MAX_BYTES
#define LOADER_LOW_END       0xa0000u  /* RAM below the legacy video hole */
#define LOADER_HIGH_START    0x100000u /* and above it and the ROMs */
#define LOADER_4GIB          0x100000000ull

/* True where [gpa, gpa + bytes) touches one of the structures above; fdt_bytes 0 = no tree. */
bool loader_hits_low_structures(gpa_t gpa, uint64_t bytes, size_t fdt_bytes);

/* Checks what start_info needs, before anything is written. */
int loader_pvh_check(const struct memory *memory, const char *name, const char *bootargs,
                     size_t fdt_bytes, struct error *err);

/* Writes start_info and all it points to. fdt_bytes 0 = no module. After loader_pvh_check(). */
int loader_pvh_write(struct memory *memory, const char *bootargs, const void *fdt, size_t fdt_bytes,
                     struct error *err);

/* A name for what the image is instead of a 64-bit ELF file, or NULL where it has the magic of one.
 * Never NULL for an empty image. */
const char *loader_foreign_format(const void *image, size_t bytes);

/* True where the image carries a multiboot header, which is not a way to boot here. */
bool loader_has_multiboot(const void *image, size_t bytes);

#endif
