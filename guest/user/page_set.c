/* SPDX-License-Identifier: MIT
 *
 * Choosing pages. A set is a few arithmetic progressions, so that any page of it is found by its
 * number without a table. */
#include "guest/user/page_set.h"

#include "guest/abi.h"
#include "guest/lib/console.h"
#include "guest/lib/string.h"

static uint64_t range_pages(const struct boot_range *range)
{
    return (range->end - range->start) / BOOT_PAGE_BYTES;
}

uint64_t page_set_free(void)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < boot_info.nfree; i++)
        n += range_pages(&boot_info.free[i]);
    return n;
}

/* `first` and `stride` count pages of the range. */
static void add_segment(struct page_set *set, const struct boot_range *range, uint64_t first,
                        uint64_t stride, uint64_t npages)
{
    struct page_set_segment *segment = &set->segment[set->nsegments];

    if (!npages)
        return;
    segment->first = set->npages;
    segment->gpa = range->start + first * BOOT_PAGE_BYTES;
    segment->step_bytes = stride * BOOT_PAGE_BYTES;
    set->nsegments++;
    set->npages += npages;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Adds what a range has for the set. `base`: free pages before the range. `budget`: pages that may
 * still be taken besides edges. */
static void add_range(struct page_set *set, const struct boot_range *range, uint64_t base,
                      uint64_t stride, uint64_t offset, bool edges, uint64_t *budget)
{
    uint64_t npages = range_pages(range);
    uint64_t low = edges ? 1 : 0;
    uint64_t high = edges ? npages - 1 : npages; /* exclusive */
    uint64_t first = low;
    uint64_t n = 0;

    if (base + low < offset)
        first = offset - base;
    else if ((base + low - offset) % stride)
        first = low + stride - (base + low - offset) % stride;
    if (first < high)
        n = min64((high - first - 1) / stride + 1, *budget);
    *budget -= n;
    if (edges)
        add_segment(set, range, 0, 1, 1);
    add_segment(set, range, first, stride, n);
    if (edges && npages > 1)
        add_segment(set, range, npages - 1, 1, 1);
}

void page_set_choose(struct page_set *set, uint64_t bytes, uint64_t stride, uint64_t offset,
                     bool edges)
{
    uint64_t available = page_set_free();
    uint64_t wanted = bytes / BOOT_PAGE_BYTES + (bytes % BOOT_PAGE_BYTES != 0);
    uint64_t nedges = 0;
    uint64_t budget;
    uint64_t base = 0;

    for (unsigned i = 0; edges && i < boot_info.nfree; i++)
        nedges += range_pages(&boot_info.free[i]) > 1 ? 2 : 1;
    if (!stride)
        stride = wanted && wanted < available ? available / wanted : 1;
    set->npages = 0;
    set->nsegments = 0;
    budget = wanted > nedges ? wanted - nedges : 0;
    for (unsigned i = 0; i < boot_info.nfree; i++) {
        add_range(set, &boot_info.free[i], base, stride, offset, edges, &budget);
        base += range_pages(&boot_info.free[i]);
    }
    if ((bytes != UINT64_MAX && set->npages < wanted) || !set->npages) {
        print("the set has %lu pages, %lu are free and %lu fit with stride %lu and offset %lu\n",
              wanted, available, set->npages, stride, offset);
        machine_exit(GUEST_EXIT_NO_MEMORY);
    }
}

uint64_t page_set_gpa(const struct page_set *set, uint64_t index)
{
    const struct page_set_segment *segment = set->segment;
    const struct page_set_segment *last = set->segment + set->nsegments - 1;

    while (segment < last && segment[1].first <= index)
        segment++;
    return segment->gpa + (index - segment->first) * segment->step_bytes;
}

void *page_set_reserve(uint64_t bytes)
{
    struct boot_range *largest = &boot_info.free[0];
    uint64_t size = (bytes + BOOT_PAGE_BYTES - 1) & ~(uint64_t)(BOOT_PAGE_BYTES - 1);
    void *memory;

    for (unsigned i = 1; i < boot_info.nfree; i++) {
        if (range_pages(&boot_info.free[i]) > range_pages(largest))
            largest = &boot_info.free[i];
    }
    /* At least a page stays, so that no range ever becomes empty. */
    if (!boot_info.nfree || size < bytes || size >= largest->end - largest->start) {
        print("no free RAM for %lu bytes of tables\n", bytes);
        machine_exit(GUEST_EXIT_NO_MEMORY);
    }
    memory = (void *)largest->start;
    largest->start += size;
    return memset(memory, 0, size);
}
