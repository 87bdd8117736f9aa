/* SPDX-License-Identifier: MIT
 *
 * Which pages of guest RAM hold something, by asking the kernel without touching any, and making
 * pages present ahead of time. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/size.h"
#include "vmm/memory.h"

/* Linux Documentation/admin-guide/mm/pagemap.rst: one 64-bit entry a page. */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_CHUNK   4096u /* entries a read: 32 KiB of stack */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int read_pagemap(int fd, const uint8_t *hva, uint64_t npages, uint64_t *words,
                        struct error *err)
{
    uint64_t entries[PAGEMAP_CHUNK];
    uint64_t first_entry = (uintptr_t)hva / MEMORY_PAGE_BYTES;
    uint64_t page = 0;

    while (page < npages) {
        uint64_t want = npages - page < PAGEMAP_CHUNK ? npages - page : PAGEMAP_CHUNK;
        ssize_t got = pread(fd, entries, (size_t)want * sizeof(entries[0]),
                            (off_t)((first_entry + page) * sizeof(entries[0])));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < (ssize_t)sizeof(entries[0])) {
            int code = got < 0 ? errno : EIO;
            return error_set(err, code, "/proc/self/pagemap: %s", strerror(code));
        }
        want = (uint64_t)got / sizeof(entries[0]);
        for (uint64_t i = 0; i < want; i++) {
            if (entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED))
                bitmap_set(words, page + i);
        }
        page += want;
    }
    return 0;
}

static int populated_by_pagemap(const struct memory_region *region, uint64_t first_page,
                                uint64_t npages, uint64_t *words, struct error *err)
{
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int result;

    if (fd < 0) {
        int code = errno;
        return error_set(err, code, "/proc/self/pagemap: %s", strerror(code));
    }
    result = read_pagemap(fd, region->hva + first_page * MEMORY_PAGE_BYTES, npages, words, err);
    (void)close(fd);
    return result;
}

/* Where the file has data next, at `page` or after it; `end` where there is none before that. */
static int seek_data(int fd, uint64_t page, uint64_t end, uint64_t *data_page, struct error *err)
{
    off_t data = lseek(fd, (off_t)(page * MEMORY_PAGE_BYTES), SEEK_DATA);

    if (data < 0 && errno != ENXIO) {
        int code = errno;
        return error_set(err, code, "SEEK_DATA in guest RAM: %s", strerror(code));
    }
    *data_page = data < 0 ? end : (uint64_t)data / MEMORY_PAGE_BYTES;
    return 0;
}

/* The end of the data that begins at `page`. */
static uint64_t seek_hole(int fd, uint64_t page)
{
    off_t hole = lseek(fd, (off_t)(page * MEMORY_PAGE_BYTES), SEEK_HOLE);
    uint64_t hole_page =
        hole < 0 ? 0 : ((uint64_t)hole + MEMORY_PAGE_BYTES - 1) / MEMORY_PAGE_BYTES;

    /* ENXIO or no progress: the data was punched out meanwhile. Calling it data is safe. */
    return hole_page > page ? hole_page : page + 1;
}

static bool extent_has(const struct memory_extent *extent, uint64_t page)
{
    return page >= extent->first_page && page < extent->end_page;
}

/* A memfd page may be in the page cache without being mapped here (swapped, or written through the
 * descriptor), which pagemap would call absent. The file knows. */
static int populated_by_seek(int fd, uint64_t first_page, uint64_t npages, uint64_t *words,
                             struct memory_extent *last, struct error *err)
{
    uint64_t page = first_page, end = first_page + npages;

    while (page < end) {
        uint64_t until;

        if (!extent_has(last, page)) {
            int rc = seek_data(fd, page, end, &page, err);

            if (rc || page >= end)
                return rc;
        }
        if (!extent_has(last, page)) {
            last->first_page = page;
            last->end_page = seek_hole(fd, page);
        }
        until = last->end_page < end ? last->end_page : end;
        bitmap_set_range(words, page - first_page, until - page);
        page = until;
    }
    return 0;
}

int memory_populated(const struct memory *memory, unsigned region, uint64_t first_page,
                     uint64_t npages, uint64_t *words, struct memory_extent *last,
                     struct error *err)
{
    struct memory_extent none = {.region = region}, *found = last ? last : &none;
    const struct memory_region *r;

    assert(region < memory->nregions);
    r = &memory->region[region];
    assert(size_range_within(first_page, npages, r->npages));
    memset(words, 0, bitmap_words(npages) * sizeof(*words));
    if (found->region != region)
        *found = none;
    if (memory->backing == MEMORY_MEMFD)
        return populated_by_seek(r->fd, first_page, npages, words, found, err);
    return populated_by_pagemap(r, first_page, npages, words, err);
}

int memory_populate(const struct memory *memory, unsigned region, uint64_t first_page,
                    uint64_t npages, struct error *err)
{
    const struct memory_region *r;

    assert(region < memory->nregions);
    r = &memory->region[region];
    assert(size_range_within(first_page, npages, r->npages));
    if (!npages)
        return 0;
    /* Faults pages in as a write would, without writing: safe beside a thread that fills them. */
    if (madvise(r->hva + first_page * MEMORY_PAGE_BYTES, (size_t)(npages * MEMORY_PAGE_BYTES),
                MADV_POPULATE_WRITE)) {
        int code = errno;
        if (code == EINVAL)
            return error_set(err, ENOTSUP, "MADV_POPULATE_WRITE needs Linux 5.14 or newer");
        return error_set(err, code, "MADV_POPULATE_WRITE: %s", strerror(code));
    }
    return 0;
}
