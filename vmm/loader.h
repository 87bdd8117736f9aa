/* SPDX-License-Identifier: MIT
 *
 * Images into guest RAM. Every byte of an image is hostile: ranges are checked before anything is
 * copied. */
#ifndef VMM_LOADER_H
#define VMM_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/memory.h"

enum loader_entry_mode {
    LOADER_PVH,       /* 32-bit protected mode, paging off, EBX = start_info (Xen PVH boot ABI) */
    LOADER_REAL_MODE, /* flat image below 1 MiB: CS:IP at its first byte */
    LOADER_PROTECTED, /* flat image at or above 1 MiB: as PVH, EBX = start_info */
};

struct loader_entry {
    enum loader_entry_mode mode;
    gpa_t address;
    gpa_t start_info; /* 0 in real mode */
};

/* ELF64 with an XEN_ELFNOTE_PHYS32_ENTRY note. Refuses with one line that names what is wrong or
 * which format was found instead (bzImage, ELF32, multiboot, script, gzip …): -ENOEXEC for a bad
 * file, -ENOMEM where a segment lies outside RAM. The device tree goes in as a module where the
 * image asks for it (guest/abi.h). */
int loader_load_elf(struct memory *memory, const char *name, const void *image, size_t image_bytes,
                    const char *bootargs, const void *fdt, size_t fdt_bytes,
                    struct loader_entry *entry, struct error *err);

int loader_load_flat(struct memory *memory, const char *name, const void *image, size_t image_bytes,
                     uint64_t load_address, const char *bootargs, struct loader_entry *entry,
                     struct error *err);

#endif
