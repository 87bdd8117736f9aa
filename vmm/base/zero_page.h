/* SPDX-License-Identifier: MIT
 *
 * Does a page read as zero? At the speed of memory: a page that holds something usually says so in
 * its first cache line, and one that does not has to be read whole. */
#ifndef VMM_BASE_ZERO_PAGE_H
#define VMM_BASE_ZERO_PAGE_H

#include <stdbool.h>

#define ZERO_PAGE_BYTES 4096

/* `page` is aligned to a page. It may change meanwhile: then the answer is of some moment of each
 * of its bytes. */
typedef bool zero_page_check(const void *page);

/* One way to look, and whether this CPU has it. */
struct zero_page_path {
    const char *name;
    bool (*supported)(void);
    zero_page_check *check;
};

/* All ways, the fastest first; NULL after the last, which every CPU has. */
const struct zero_page_path *zero_page_path_at(unsigned index);

/* The fastest that this CPU has. */
zero_page_check *zero_page_best(void);

#endif
