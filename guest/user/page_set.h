/* SPDX-License-Identifier: MIT
 *
 * Which pages a workload works on: a numbered choice out of the free RAM. */
#ifndef GUEST_USER_PAGE_SET_H
#define GUEST_USER_PAGE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/lib/boot_info.h"

/* One segment for the strided part of a range, one for its last page. */
#define PAGE_SET_MAX_SEGMENTS (3 * (BOOT_MAX_RANGES + 1))

struct page_set_segment {
    uint64_t first; /* number of its first page */
    uint64_t gpa;
    uint64_t step_bytes;
};

struct page_set {
    uint64_t npages;
    unsigned nsegments;
    struct page_set_segment segment[PAGE_SET_MAX_SEGMENTS];
};

/* Chooses up to bytes / 4096 pages (rounded up; UINT64_MAX: all). Every stride-th page from the
 * offset-th free page on; stride 0 spreads the set over all free RAM. With edges, the first and the
 * last page of every free range belong to the set whatever stride and offset say. Fewer pages than
 * asked for is GUEST_EXIT_NO_MEMORY unless bytes is UINT64_MAX. */
void page_set_choose(struct page_set *set, uint64_t bytes, uint64_t stride, uint64_t offset,
                     bool edges);

/* Address of page number `index`, which must be below npages. */
uint64_t page_set_gpa(const struct page_set *set, uint64_t index);

/* Takes whole pages away from free RAM, before any set is chosen; zeroed. Ends the guest with
 * GUEST_EXIT_NO_MEMORY where no range has room. */
void *page_set_reserve(uint64_t bytes);

/* Free RAM in pages. */
uint64_t page_set_free(void);

#endif
