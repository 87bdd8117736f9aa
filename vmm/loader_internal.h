/* SPDX-License-Identifier: MIT
 *
 * What the loaders share: the low memory map, the memory map that guests are told, the place of an
 * initrd, and the names of formats. Internal to loader*.c.
 *
 *   0x06000  start_info, module list, module name (PVH boot ABI, Xen
 *            xen/include/public/arch-x86/hvm/start_info.h), or Multiboot's structures
 *   0x06100  memory map
 *   0x06f00  GDT of 64-bit entries
 *   0x07000  boot_params of Linux
 *   0x08000  left to the guest for starting its other vCPUs (to 0x9fff)
 *   0x0a000  page tables of 64-bit entries (to 0xffff)
 *   0x20000  command line
 *   0x30000  device tree (to 0x6ffff at most)
 *   0xe0000  ACPI tables
 *   0xffff0  what firmware has at the reset vector
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
#define LOADER_GDT           0x6f00u
#define LOADER_BOOT_PARAMS   0x7000u
#define LOADER_INFO_END      0x8000u
#define LOADER_PAGE_TABLES   0xa000u
#define LOADER_TABLES_END    0x10000u
#define LOADER_CMDLINE       0x20000u
#define LOADER_CMDLINE_END   0x21000u
#define LOADER_FDT           0x30000u
#define LOADER_FDT_MAX_BYTES MACHINE_TREE_MAX_BYTES
#define LOADER_LOW_END       0xa0000u /* RAM below the legacy video hole */
#define LOADER_RESET_VECTOR  0xffff0u
#define LOADER_HIGH_START    0x100000u /* and above it and the ROMs */
#define LOADER_4GIB          0x100000000ull

/* True where [gpa, gpa + bytes) touches one of the structures above; tree_bytes 0 = no tree. */
bool loader_hits_low_structures(const struct loader_request *request, gpa_t gpa, uint64_t bytes,
                                size_t tree_bytes);

/* What every entry but real mode needs, checked before anything is written: the first MiB is RAM,
 * command line, tree and tables fit. */
int loader_low_check(const struct memory *memory, const struct loader_request *request,
                     size_t tree_bytes, struct error *err);

/* Writes the command line, the ACPI tables and the code at the reset vector. After
 * loader_low_check(). */
int loader_low_write(struct memory *memory, const struct loader_request *request,
                     struct error *err);

/* The memory that a guest is told of, in the types that ACPI 6.4 table 15.374, e820, PVH and
 * Multiboot share. */
enum {
    LOADER_MEMMAP_RAM = 1,
    LOADER_MEMMAP_RESERVED = 2,
};

struct loader_memmap_range {
    uint64_t gpa, bytes;
    uint32_t type;
};

/* Region 0 splits in three around the hole below 1 MiB. */
#define LOADER_MEMMAP_MAX (MEMORY_MAX_REGIONS + 2)

/* Fills map with at most LOADER_MEMMAP_MAX ranges; returns how many. */
unsigned loader_memmap(const struct memory *memory, struct loader_memmap_range *map);

/* Where the initrd goes: as high as it fits below `limit` and in the RAM below the 32-bit gap, at
 * a page, above kernel_end. *gpa is 0 where there is none. -ENOMEM where it does not fit. */
int loader_initrd_place(const struct memory *memory, const struct loader_request *request,
                        gpa_t kernel_end, gpa_t limit, gpa_t *gpa, struct error *err);
int loader_initrd_write(struct memory *memory, const struct loader_request *request, gpa_t gpa,
                        struct error *err);

/* PVH: start_info and all it points to but what loader_low_write() writes. */
int loader_pvh_write(struct memory *memory, const struct loader_request *request, bool with_tree,
                     gpa_t initrd, struct error *err);

/* The formats; loader_load() chooses. */
int loader_load_elf(struct memory *memory, const struct loader_request *request,
                    struct loader_entry *entry, struct error *err);
int loader_load_flat(struct memory *memory, const struct loader_request *request,
                     struct loader_entry *entry, struct error *err);
int loader_load_bzimage(struct memory *memory, const struct loader_request *request,
                        struct loader_entry *entry, struct error *err);

/* Has the image the magic number of a Linux setup header? */
bool loader_is_bzimage(const struct loader_blob *image);

/* A name for what the image is instead of something that can be booted, or NULL where it has the
 * magic of an ELF file. Never NULL for an empty image. */
const char *loader_foreign_format(const void *image, size_t bytes);

#endif
