/* SPDX-License-Identifier: MIT
 *
 * What a page of memcheck holds. Word 0 is the page's number in the set, word 1 its generation,
 * word 2 a checksum over both and all that follows: anyone can tell a torn page from a whole one.
 * The other words are the payload. A new generation writes only some of them, going round the page
 * with far jumps, so that every word tells in which generation it was written last. */
#ifndef GUEST_WORKLOADS_MEMCHECK_PAGE_H
#define GUEST_WORKLOADS_MEMCHECK_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#define MEMCHECK_PAYLOAD 509u /* 512 without the head, and a prime */

struct memcheck_page {
    uint64_t index, generation, checksum;
    uint64_t payload[MEMCHECK_PAYLOAD];
};

/* Where a page differs first, as 64-bit word of the page. */
struct memcheck_fault {
    unsigned word;
    uint64_t found, expected;
};

/* Writes the whole page: generation 0. */
void memcheck_page_fill(struct memcheck_page *page, uint64_t seed, uint64_t index);

/* Is every word what `generation` left? nwords: payload words written per generation. */
bool memcheck_page_ok(const struct memcheck_page *page, uint64_t seed, uint64_t index,
                      uint64_t generation, uint64_t nwords);

/* For a page that is not: where. */
struct memcheck_fault memcheck_page_fault(const struct memcheck_page *page, uint64_t seed,
                                          uint64_t index, uint64_t generation, uint64_t nwords);

/* Makes generation `generation` out of the one before it. */
void memcheck_page_write(struct memcheck_page *page, uint64_t seed, uint64_t index,
                         uint64_t generation, uint64_t nwords);

#endif
