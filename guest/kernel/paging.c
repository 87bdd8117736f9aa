/* SPDX-License-Identifier: MIT
 *
 * Four-level page tables (Intel SDM volume 3, 4.5): 2 MiB pages, 4 KiB ones where a 2 MiB page
 * would hold something that is not RAM for ring 3. Accessed and dirty are set from the start, so
 * that the CPU never writes to the tables and a dirty log holds what the workload wrote. */
#include "guest/kernel/paging.h"

#include <stdbool.h>

#include "guest/abi.h"
#include "guest/kernel/layout.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/console.h"
#include "guest/lib/string.h"

#define PTE_PRESENT  0x01ull
#define PTE_WRITE    0x02ull
#define PTE_USER     0x04ull
#define PTE_UNCACHED 0x18ull /* PCD and PWT */
#define PTE_USED     0x60ull /* accessed and dirty */
#define PTE_LARGE    0x80ull
#define PTE_ADDRESS  0x000ffffffffff000ull

#define TABLE (PTE_PRESENT | PTE_WRITE | PTE_USER | 0x20ull)
#define PAGE  (PTE_PRESENT | PTE_USED)

#define LARGE_BYTES (2ull << 20)
#define GIB         (1ull << 30)
/* 48-bit addresses, the lower half. */
#define ADDRESS_END (1ull << 47)

extern const char image_start[], image_end[];
extern const char kernel_data_start[], user_text_start[], user_data_start[];

static struct {
    uint64_t *root;
    uint64_t next, end; /* room for tables */
} paging;

static uint64_t *table_new(bool clear)
{
    uint64_t *table = (uint64_t *)paging.next;

    if (paging.next >= paging.end) {
        print("kernel: no room for page tables\n");
        machine_exit(GUEST_EXIT_NO_MEMORY);
    }
    paging.next += BOOT_PAGE_BYTES;
    if (clear)
        memset(table, 0, BOOT_PAGE_BYTES);
    return table;
}

static uint64_t *table_below(uint64_t *entry)
{
    if (!*entry)
        *entry = (uint64_t)table_new(true) | TABLE;
    return (uint64_t *)(*entry & PTE_ADDRESS);
}

static uint64_t *directory_of(uint64_t address)
{
    uint64_t *pdpt = table_below(&paging.root[address >> 39 & 511]);

    return table_below(&pdpt[address >> 30 & 511]);
}

static void map_small(uint64_t address, uint64_t flags)
{
    uint64_t *table = table_below(&directory_of(address)[address >> 21 & 511]);

    table[address >> 12 & 511] = address | flags;
}

/* What the page of a mixed 2 MiB range may be used for: 0 where it is not to be mapped. */
static uint64_t small_flags(uint64_t address)
{
    if (address < BOOT_PAGE_BYTES)
        return 0;
    if (address < LOW_RESERVED_END)
        return PAGE | PTE_WRITE;
    if (address < (uint64_t)image_start || address >= paging.end)
        return PAGE | PTE_WRITE | PTE_USER;
    if (address == GUEST_STATS_GPA ||
        (address >= (uint64_t)user_data_start && address < (uint64_t)image_end))
        return PAGE | PTE_WRITE | PTE_USER;
    if (address >= (uint64_t)user_text_start && address < (uint64_t)user_data_start)
        return PAGE | PTE_USER;
    if (address < (uint64_t)kernel_data_start)
        return PAGE;
    return PAGE | PTE_WRITE;
}

/* Large pages from `start` to the end of RAM or of this directory, whichever is first. */
static uint64_t map_large(uint64_t start, uint64_t end)
{
    uint64_t *entry = &directory_of(start)[start >> 21 & 511];
    uint64_t stop = (start & ~(GIB - 1)) + GIB;

    if (stop > end)
        stop = end;
    for (; start < stop; start += LARGE_BYTES)
        *entry++ = start | PAGE | PTE_WRITE | PTE_USER | PTE_LARGE;
    return start;
}

static void map_range(const struct boot_range *range)
{
    uint64_t address = range->start;
    uint64_t end = range->end < ADDRESS_END ? range->end : ADDRESS_END;

    while (address < end) {
        bool aligned = !(address & (LARGE_BYTES - 1)) && end - address >= LARGE_BYTES;

        if (aligned && address >= paging.end) {
            address = map_large(address, end & ~(LARGE_BYTES - 1));
            continue;
        }
        if (small_flags(address))
            map_small(address, small_flags(address));
        address += BOOT_PAGE_BYTES;
    }
}

/* Tables that the ranges can need at most: per range its directories, and mixed ends. */
static uint64_t tables_needed(void)
{
    uint64_t image_pages = (uint64_t)image_end / LARGE_BYTES + 2;
    uint64_t n = 1 + image_pages + 2 * 3 + 4; /* root, image, device pages, frame buffer */

    for (unsigned i = 0; i < boot_info.nram; i++) {
        const struct boot_range *r = &boot_info.ram[i];

        n += (r->end >> 39) - (r->start >> 39) + 1;
        n += (r->end >> 30) - (r->start >> 30) + 1;
        n += 2;
    }
    /* The tables themselves lie in mixed ranges too. */
    return n + n * BOOT_PAGE_BYTES / LARGE_BYTES + 2;
}

static void add_free(uint64_t start, uint64_t end)
{
    if (start < end) {
        boot_info.free[boot_info.nfree].start = start;
        boot_info.free[boot_info.nfree++].end = end;
    }
}

/* RAM without what the kernel keeps: the low pages, and the image with its tables. */
static void list_free(void)
{
    for (unsigned i = 0; i < boot_info.nram; i++) {
        uint64_t start = boot_info.ram[i].start;
        uint64_t end = boot_info.ram[i].end;
        uint64_t below = end < (uint64_t)image_start ? end : (uint64_t)image_start;

        add_free(start > LOW_RESERVED_END ? start : LOW_RESERVED_END, below);
        if (end > ADDRESS_END)
            end = ADDRESS_END;
        add_free(start > paging.end ? start : paging.end, end);
    }
}

static bool image_has_room(void)
{
    for (unsigned i = 0; i < boot_info.nram; i++) {
        if (boot_info.ram[i].start <= (uint64_t)image_start && boot_info.ram[i].end >= paging.end)
            return true;
    }
    return false;
}

void paging_init(void)
{
    paging.next = (uint64_t)image_end;
    paging.end = paging.next + tables_needed() * BOOT_PAGE_BYTES;
    if (!image_has_room()) {
        print("kernel: no RAM from %lx to %lx for the image and its page tables\n",
              (uint64_t)image_start, paging.end);
        machine_exit(GUEST_EXIT_NO_MEMORY);
    }
    paging.root = table_new(true);
    for (unsigned i = 0; i < boot_info.nram; i++)
        map_range(&boot_info.ram[i]);
    map_small(PAGING_LAPIC, PAGE | PTE_WRITE | PTE_UNCACHED);
    map_small(PAGING_IOAPIC, PAGE | PTE_WRITE | PTE_UNCACHED);
    if (boot_info.probe_mmio)
        map_small(boot_info.probe_mmio, PAGE | PTE_WRITE | PTE_USER | PTE_UNCACHED);
    map_range(&boot_info.framebuffer);
    list_free();
    __asm__ volatile("movq %0, %%cr3" : : "r"(paging.root) : "memory");
}

uint64_t paging_root(void)
{
    return (uint64_t)paging.root;
}
