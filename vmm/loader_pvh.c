/* SPDX-License-Identifier: MIT
 *
 * The PVH boot ABI's side of loading: start_info, memory map, modules. Structures as
 * in Xen's xen/include/public/arch-x86/hvm/start_info.h, version 1. */
#include <errno.h>
#include <string.h>

#include "guest/abi.h"
#include "vmm/loader_internal.h"

#define START_MAGIC   0x336ec578u
#define START_VERSION 1

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

_Static_assert(LOADER_MEMMAP + LOADER_MEMMAP_MAX * sizeof(struct memmap_entry) <= LOADER_GDT,
               "memory map fits");
_Static_assert(LOADER_CMDLINE + MACHINE_BOOTARGS_MAX + 1 <= LOADER_CMDLINE_END,
               "command line fits");
_Static_assert(LOADER_FDT + LOADER_FDT_MAX_BYTES <= LOADER_LOW_END, "device tree fits");

static uint32_t fill_memmap(const struct memory *memory, struct memmap_entry *entries)
{
    struct loader_memmap_range map[LOADER_MEMMAP_MAX];
    unsigned n = loader_memmap(memory, map);

    for (unsigned i = 0; i < n; i++)
        entries[i] = (struct memmap_entry){map[i].gpa, map[i].bytes, map[i].type, 0};
    return n;
}

/* Module 0 is the ramdisk by Linux's convention: an empty one keeps its place. */
static int write_modules(struct memory *memory, const struct loader_request *request,
                         bool with_tree, gpa_t initrd)
{
    const struct module modules[] = {
        {initrd, request->initrd.bytes, 0, 0},
        {LOADER_FDT, request->tree.bytes, LOADER_MODULE_NAME, 0},
    };
    int ret = memory_write(memory, LOADER_MODULES, modules, sizeof(modules));

    if (ret || !with_tree)
        return ret;
    ret = memory_write(memory, LOADER_MODULE_NAME, GUEST_FDT_MODULE, sizeof(GUEST_FDT_MODULE));
    return ret ? ret : memory_write(memory, LOADER_FDT, request->tree.data, request->tree.bytes);
}

int loader_pvh_write(struct memory *memory, const struct loader_request *request, bool with_tree,
                     gpa_t initrd, struct error *err)
{
    struct memmap_entry map[LOADER_MEMMAP_MAX];
    uint32_t nmodules = with_tree ? 2 : request->initrd.bytes ? 1 : 0;
    struct start_info info = {
        .magic = START_MAGIC,
        .version = START_VERSION,
        .nr_modules = nmodules,
        .modlist = nmodules ? LOADER_MODULES : 0,
        .cmdline = LOADER_CMDLINE,
        .rsdp = request->acpi.bytes ? LOADER_ACPI_GPA : 0,
        .memmap = LOADER_MEMMAP,
        .memmap_entries = fill_memmap(memory, map),
    };
    int ret = memory_write(memory, LOADER_START_INFO, &info, sizeof(info));

    if (!ret)
        ret = memory_write(memory, LOADER_MEMMAP, map, info.memmap_entries * sizeof(map[0]));
    if (!ret && nmodules)
        ret = write_modules(memory, request, with_tree, initrd);
    return ret ? error_set(err, -ret, "start_info does not fit into guest memory") : 0;
}
