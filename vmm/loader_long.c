/* SPDX-License-Identifier: MIT */
#include "vmm/loader_long.h"

#include "vmm/loader_internal.h"

/* SDM vol. 3 table 4-15 to 4-18. */
#define ENTRIES      512u
#define PRESENT      0x1ull
#define WRITABLE     0x2ull
#define LARGE        0x80ull
#define LARGE_SHIFT  21
#define GIB_TABLES   4u
#define TABLE_BYTES  4096u
#define PDPT_GPA     (LOADER_PAGE_TABLES + TABLE_BYTES)
#define FIRST_PD_GPA (PDPT_GPA + TABLE_BYTES)

_Static_assert(FIRST_PD_GPA + GIB_TABLES * TABLE_BYTES <= LOADER_TABLES_END, "the tables fit");
_Static_assert(LOADER_GDT + LOADER_LONG_GDT_BYTES <= LOADER_BOOT_PARAMS, "so does the GDT");

/* SDM vol. 3 figure 3-8: flat 64-bit code, flat data, a busy 64-bit TSS of 104 bytes at 0. */
static const uint64_t gdt[LOADER_LONG_GDT_BYTES / sizeof(uint64_t)] = {
    [LOADER_LONG_CS / 8] = 0x00af9b000000ffffull,
    [LOADER_LONG_DS / 8] = 0x00cf93000000ffffull,
    [LOADER_LONG_TSS / 8] = 0x00008b0000000067ull,
};

static int write_directory(struct memory *memory, unsigned gib)
{
    uint64_t table[ENTRIES];

    for (unsigned i = 0; i < ENTRIES; i++)
        table[i] = (uint64_t)(gib * ENTRIES + i) << LARGE_SHIFT | PRESENT | WRITABLE | LARGE;
    return memory_write(memory, FIRST_PD_GPA + (uint64_t)gib * TABLE_BYTES, table, sizeof(table));
}

int loader_long_write(struct memory *memory, struct loader_entry *entry, struct error *err)
{
    const uint64_t pml4[] = {PDPT_GPA | PRESENT | WRITABLE};
    uint64_t pdpt[GIB_TABLES];
    int ret = memory_write(memory, LOADER_PAGE_TABLES, pml4, sizeof(pml4));

    for (unsigned gib = 0; !ret && gib < GIB_TABLES; gib++) {
        pdpt[gib] = (FIRST_PD_GPA + (uint64_t)gib * TABLE_BYTES) | PRESENT | WRITABLE;
        ret = write_directory(memory, gib);
    }
    if (!ret)
        ret = memory_write(memory, PDPT_GPA, pdpt, sizeof(pdpt));
    if (!ret)
        ret = memory_write(memory, LOADER_GDT, gdt, sizeof(gdt));
    entry->mode = LOADER_LONG;
    entry->gdt = LOADER_GDT;
    entry->page_map = LOADER_PAGE_TABLES;
    return ret ? error_set(err, -ret, "page tables do not fit into guest memory") : 0;
}
