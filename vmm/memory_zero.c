/* SPDX-License-Identifier: MIT
 *
 * Which pages read as zero. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/zero_page.h"
#include "vmm/memory.h"

/* Read from a file at a time: the copy stays in the core's first caches. */
#define PIECE_PAGES 16u

static int read_file(int fd, uint64_t page, void *buffer, size_t bytes, struct error *err)
{
    ssize_t got;

    do
        got = pread(fd, buffer, bytes, (off_t)(page * MEMORY_PAGE_BYTES));
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)bytes)
        return 0;
    return error_set(err, got < 0 ? errno : EIO, "reading guest RAM from its file: %s",
                     got < 0 ? strerror(errno) : "it is shorter than the RAM");
}

/* `pages` are those of `run`, whose numbers are bits. */
static void sort_pages(const uint8_t *pages, struct bitmap_run run, uint64_t *data, uint64_t *zero)
{
    zero_page_check *reads_as_zero = zero_page_best();

    for (uint64_t i = 0; i < run.count; i++) {
        if (reads_as_zero(pages + i * MEMORY_PAGE_BYTES)) {
            bitmap_clear(data, run.first + i);
            bitmap_set(zero, run.first + i);
        }
    }
}

static int sort_in_file(int fd, uint64_t first_page, struct bitmap_run run, uint64_t *data,
                        uint64_t *zero, struct error *err)
{
    _Alignas(MEMORY_PAGE_BYTES) uint8_t piece[PIECE_PAGES * MEMORY_PAGE_BYTES];

    for (uint64_t end = run.first + run.count; run.first < end; run.first += run.count) {
        int rc;

        run.count = end - run.first < PIECE_PAGES ? end - run.first : PIECE_PAGES;
        rc = read_file(fd, first_page + run.first, piece, (size_t)run.count * MEMORY_PAGE_BYTES,
                       err);
        if (rc)
            return rc;
        sort_pages(piece, run, data, zero);
    }
    return 0;
}

int memory_sort_zeros(const struct memory *memory, unsigned region, uint64_t first_page,
                      uint64_t npages, uint64_t *data, uint64_t *zero, struct error *err)
{
    const struct memory_region *in = &memory->region[region];
    struct bitmap_run run;
    uint64_t position = 0;
    int rc = 0;

    while (!rc && bitmap_next_run(data, npages, &position, &run)) {
        if (memory_in_file(memory))
            rc = sort_in_file(in->fd, first_page, run, data, zero, err);
        else
            sort_pages(in->hva + (first_page + run.first) * MEMORY_PAGE_BYTES, run, data, zero);
    }
    return rc;
}
