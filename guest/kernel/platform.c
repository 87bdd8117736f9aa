/* SPDX-License-Identifier: MIT
 *
 * PVH start info (Xen public/arch-x86/hvm/start_info.h) and device tree. Without a device tree, or
 * for what it does not say, the defaults of abi.h hold. Nothing here may trust a pointer beyond
 * the first 4 GiB, which is all that is mapped yet. */
#include "guest/kernel/platform.h"

#include <stdbool.h>

#include "guest/abi.h"
#include "guest/kernel/fdt.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/string.h"

#define START_INFO_MAGIC 0x336ec578u
#define MEMMAP_RAM       1
#define MAPPED_END       0x100000000ull

struct start_info {
    uint32_t magic, version, flags, nmodules;
    uint64_t modules, command_line, rsdp;
    uint64_t memory_map; /* version 1 and later, as are the two below */
    uint32_t memory_map_entries, reserved;
};

struct start_module {
    uint64_t address, bytes, command_line, reserved;
};

struct start_memory {
    uint64_t address, bytes;
    uint32_t type, reserved;
};

static const void *mapped(uint64_t address, uint64_t bytes)
{
    if (!address || address >= MAPPED_END || bytes > MAPPED_END - address)
        return NULL;
    return (const void *)address;
}

/* Sorted insert; joins with what it touches. Whole pages only. */
static void add_ram(uint64_t start, uint64_t end)
{
    struct boot_range *ram = boot_info.ram;
    unsigned at = 0;

    start = (start + BOOT_PAGE_BYTES - 1) & ~(uint64_t)(BOOT_PAGE_BYTES - 1);
    end &= ~(uint64_t)(BOOT_PAGE_BYTES - 1);
    if (start >= end)
        return;
    while (at < boot_info.nram && ram[at].start < start)
        at++;
    if (at && ram[at - 1].end == start) {
        ram[at - 1].end = end;
    } else if (at < boot_info.nram && ram[at].start == end) {
        ram[at].start = start;
    } else if (boot_info.nram < BOOT_MAX_RANGES) {
        for (unsigned i = boot_info.nram++; i > at; i--)
            ram[i] = ram[i - 1];
        ram[at].start = start;
        ram[at].end = end;
    } else {
        return; /* more ranges than anyone makes: the rest stays unused */
    }
    boot_info.ram_bytes += end - start;
}

static void read_memory_map(const struct start_info *info)
{
    const struct start_memory *map;

    if (info->version < 1)
        return;
    map = mapped(info->memory_map, info->memory_map_entries * sizeof(*map));
    for (uint32_t i = 0; map && i < info->memory_map_entries; i++) {
        if (map[i].type == MEMMAP_RAM && map[i].bytes <= UINT64_MAX - map[i].address)
            add_ram(map[i].address, map[i].address + map[i].bytes);
    }
}

static void set_command_line(const char *text, uint64_t bytes)
{
    size_t n = 0;

    while (n < bytes && text[n] && n < BOOT_COMMAND_LINE - 1) {
        boot_info.command_line[n] = text[n];
        n++;
    }
    boot_info.command_line[n] = '\0';
    boot_info.command_line_cut = n < bytes && text[n];
}

/* The node under the walk, which is judged by `compatible` and may say so after its `reg`. */
struct tree_state {
    char path[128];
    bool is_exit, is_serial, is_probe, is_framebuffer;
    struct fdt_property reg;
    unsigned ncpus;
};

/* <u64 address, u64 bytes>; whole pages or not at all. */
static void set_framebuffer(const struct fdt_property *reg)
{
    uint64_t start = (uint64_t)fdt_cell(reg, 0) << 32 | fdt_cell(reg, 1);
    uint64_t bytes = (uint64_t)fdt_cell(reg, 2) << 32 | fdt_cell(reg, 3);

    if ((start | bytes) % BOOT_PAGE_BYTES || bytes > UINT64_MAX - start)
        return;
    boot_info.framebuffer = (struct boot_range){start, start + bytes};
}

static void leave_node(struct tree_state *tree)
{
    const struct fdt_property *reg = &tree->reg;

    if (tree->is_exit && reg->bytes >= 4)
        boot_info.exit_port = (uint16_t)fdt_cell(reg, 0);
    if (tree->is_serial && reg->bytes >= 4)
        boot_info.serial_port = (uint16_t)fdt_cell(reg, reg->bytes >= 12 ? 1 : 0);
    if (tree->is_probe) {
        boot_info.probe_port = PROBE_PORT;
        boot_info.probe_mmio = PROBE_MMIO;
    }
    if (tree->is_framebuffer)
        set_framebuffer(reg);
}

static bool is_child(const char *path, const char *parent_and_prefix)
{
    size_t n = strlen(parent_and_prefix);

    if (strncmp(path, parent_and_prefix, n) != 0)
        return false;
    for (path += n; *path; path++) {
        if (*path == '/')
            return false;
    }
    return true;
}

static void visit(void *opaque, const char *path, const struct fdt_property *property)
{
    struct tree_state *tree = opaque;

    if (!property) {
        leave_node(tree);
        tree->is_exit = tree->is_serial = tree->is_probe = tree->is_framebuffer = false;
        tree->reg.bytes = 0;
        if (is_child(path, "/cpus/cpu@"))
            tree->ncpus++;
        return;
    }
    if (!strcmp(property->name, "compatible")) {
        tree->is_exit = fdt_lists(property, "pageferry,exit-port");
        tree->is_serial = fdt_lists(property, "ns16550a");
        tree->is_probe = fdt_lists(property, "pageferry,probe");
        tree->is_framebuffer = fdt_lists(property, "pageferry,framebuffer");
    } else if (!strcmp(property->name, "reg")) {
        tree->reg = *property;
    } else if (!strcmp(path, "/cpus") && !strcmp(property->name, "pageferry,tsc-khz")) {
        boot_info.tsc_khz = fdt_number(property);
        boot_info.tsc_from = BOOT_TSC_TREE;
    } else if (!strcmp(path, "/chosen") && !strcmp(property->name, "bootargs") &&
               !boot_info.command_line[0]) {
        set_command_line((const char *)property->value, property->bytes);
    }
}

static void read_tree(const void *blob, uint64_t bytes)
{
    struct tree_state tree = {.ncpus = 0};
    struct fdt fdt;

    if (!fdt_open(&fdt, blob, bytes) || !fdt_walk(&fdt, visit, &tree))
        return;
    leave_node(&tree);
    boot_info.device_tree = true;
    if (tree.ncpus)
        boot_info.ncpus_present = tree.ncpus < GUEST_MAX_CPUS ? tree.ncpus : GUEST_MAX_CPUS;
}

static void read_modules(const struct start_info *info)
{
    const struct start_module *modules =
        mapped(info->modules, info->nmodules * sizeof(struct start_module));

    for (uint32_t i = 0; modules && i < info->nmodules; i++) {
        const char *name = mapped(modules[i].command_line, sizeof(GUEST_FDT_MODULE));
        const void *blob = mapped(modules[i].address, modules[i].bytes);

        if (name && blob && !strcmp(name, GUEST_FDT_MODULE))
            read_tree(blob, modules[i].bytes);
    }
}

void platform_init(uint32_t start_info)
{
    const struct start_info *info = mapped(start_info, sizeof(*info));
    const char *text;

    boot_info.exit_port = GUEST_EXIT_PORT_DEFAULT;
    boot_info.serial_port = GUEST_SERIAL_PORT;
    boot_info.ncpus_present = GUEST_MAX_CPUS; /* without a tree: as many as answer */
    boot_info.ncpus = 1;
    if (!info || info->magic != START_INFO_MAGIC)
        return;
    read_memory_map(info);
    text = mapped(info->command_line, BOOT_COMMAND_LINE);
    if (text)
        set_command_line(text, BOOT_COMMAND_LINE);
    read_modules(info);
    if (boot_info.device_tree)
        boot_info.ncpus = boot_info.ncpus_present;
}
