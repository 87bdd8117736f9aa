/* SPDX-License-Identifier: MIT
 *
 * The PVH boot ABI's side of loading: start_info, memory map, command line, modules. Structures as
 * in Xen's xen/include/public/arch-x86/hvm/start_info.h, version 1. */
#include <errno.h>
#include <string.h>

#include "guest/abi.h"
#include "vmm/loader_internal.h"

#define START_MAGIC   0x336ec578u
#define START_VERSION 1

enum {
    MEMMAP_RAM = 1,
    MEMMAP_RESERVED = 2,
};

struct start_info {
    uint32_t magic, version, flags, nr_modules;
    uint64_t modlist, cmdline, rsdp, memmap;
    uint32_t memmap_entries, reserved;
};

struct module {
    uint64_t address, bytes, cmdline, reserved;
};

struct memmap_entry {
    uint64_t address, bytes;
    uint32_t type, reserved;
};

_Static_assert(sizeof(struct start_info) == 56, "start_info v1");
_Static_assert(sizeof(struct module) == 32, "modlist entry");
_Static_assert(sizeof(struct memmap_entry) == 24, "memmap entry");

/* Region 0 splits in three around the hole below 1 MiB. */
#define MEMMAP_MAX (MEMORY_MAX_REGIONS + 2)

_Static_assert(LOADER_MEMMAP + MEMMAP_MAX * sizeof(struct memmap_entry) <= LOADER_INFO_END,
               "memory map fits");
_Static_assert(LOADER_CMDLINE + MACHINE_BOOTARGS_MAX + 1 <= LOADER_CMDLINE_END,
               "command line fits");
_Static_assert(LOADER_FDT + LOADER_FDT_MAX_BYTES <= LOADER_LOW_END, "device tree fits");

static bool overlaps(gpa_t a, uint64_t a_bytes, gpa_t b, uint64_t b_bytes)
{
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

bool loader_hits_low_structures(gpa_t gpa, uint64_t bytes, size_t fdt_bytes)
{
    return overlaps(gpa, bytes, LOADER_START_INFO, LOADER_INFO_END - LOADER_START_INFO) ||
           overlaps(gpa, bytes, LOADER_CMDLINE, LOADER_CMDLINE_END - LOADER_CMDLINE) ||
           overlaps(gpa, bytes, LOADER_FDT, fdt_bytes);
}

int loader_pvh_check(const struct memory *memory, const char *name, const char *bootargs,
                     size_t fdt_bytes, struct error *err)
{
    if (strlen(bootargs) > MACHINE_BOOTARGS_MAX)
        return error_set(err, E2BIG, "%s: the command line has %zu bytes, at most %d fit", name,
                         strlen(bootargs), MACHINE_BOOTARGS_MAX);
    if (fdt_bytes > LOADER_FDT_MAX_BYTES)
        return error_set(err, E2BIG, "%s: the device tree has %zu bytes, at most %u fit", name,
                         fdt_bytes, LOADER_FDT_MAX_BYTES);
    if (!memory_at(memory, 0, LOADER_HIGH_START))
        return error_set(err, ENOMEM, "%s: the first MiB of guest memory is not RAM", name);
    return 0;
}

static unsigned fill_memmap(const struct memory *memory, struct memmap_entry *map)
{
    unsigned n = 0;

    for (unsigned i = 0; i < memory->nregions; i++) {
        gpa_t gpa = memory->region[i].gpa;
        uint64_t bytes = memory->region[i].npages * MEMORY_PAGE_BYTES;
        bool in_gap = gpa >= MEMORY_GAP_START && gpa < MEMORY_GAP_END;

        if (gpa == 0) {
            map[n++] = (struct memmap_entry){0, LOADER_LOW_END, MEMMAP_RAM, 0};
            map[n++] = (struct memmap_entry){LOADER_LOW_END, LOADER_HIGH_START - LOADER_LOW_END,
                                             MEMMAP_RESERVED, 0};
            gpa = LOADER_HIGH_START;
            bytes -= LOADER_HIGH_START;
        }
        /* What lies in the 32-bit gap belongs to a device. */
        if (bytes)
            map[n++] = (struct memmap_entry){gpa, bytes, in_gap ? MEMMAP_RESERVED : MEMMAP_RAM, 0};
    }
    return n;
}

int loader_pvh_write(struct memory *memory, const char *bootargs, const void *fdt, size_t fdt_bytes,
                     struct error *err)
{
    struct memmap_entry map[MEMMAP_MAX];
    struct start_info info = {
        .magic = START_MAGIC,
        .version = START_VERSION,
        .nr_modules = fdt_bytes ? 2 : 0,
        .modlist = fdt_bytes ? LOADER_MODULES : 0,
        .cmdline = LOADER_CMDLINE,
        .memmap = LOADER_MEMMAP,
        .memmap_entries = fill_memmap(memory, map),
    };
    /* Module 0 is the ramdisk by Linux's convention: an empty one keeps its place. */
    const struct module modules[] = {
        {0, 0, 0, 0},
        {LOADER_FDT, fdt_bytes, LOADER_MODULE_NAME, 0},
    };
    int result = memory_write(memory, LOADER_START_INFO, &info, sizeof(info));

    if (!result)
        result = memory_write(memory, LOADER_MEMMAP, map, info.memmap_entries * sizeof(map[0]));
    if (!result)
        result = memory_write(memory, LOADER_CMDLINE, bootargs, strlen(bootargs) + 1);
    if (!result && fdt_bytes) {
        result = memory_write(memory, LOADER_MODULES, modules, sizeof(modules));
        if (!result)
            result = memory_write(memory, LOADER_MODULE_NAME, GUEST_FDT_MODULE,
                                  sizeof(GUEST_FDT_MODULE));
        if (!result)
            result = memory_write(memory, LOADER_FDT, fdt, fdt_bytes);
    }
    if (result)
        return error_set(err, -result, "start_info does not fit into guest memory");
    return 0;
}
