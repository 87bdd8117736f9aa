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

/* The next pages with data at `page` or after it: 1, 0 where there are none, or -errno. */
static int seek_data(int fd, uint64_t page, struct memory_known *found, struct error *err)
{
    off_t data = lseek(fd, (off_t)(page * MEMORY_PAGE_BYTES), SEEK_DATA);
    off_t hole;

    if (data < 0 && errno == ENXIO)
        return 0;
    if (data < 0) {
        int code = errno;
        return error_set(err, code, "SEEK_DATA in guest RAM: %s", strerror(code));
    }
    hole = lseek(fd, data, SEEK_HOLE);
    found->first_page = (uint64_t)data / MEMORY_PAGE_BYTES;
    /* ENXIO or no progress: the data was punched out meanwhile. Calling it data is safe. */
    found->end_page = hole > data ? ((uint64_t)hole + MEMORY_PAGE_BYTES - 1) / MEMORY_PAGE_BYTES
                                  : found->first_page + 1;
    return 1;
}

/* A memfd page may be in the page cache without being mapped here (swapped, or written through the
 * descriptor), which pagemap would call absent. The file knows. */
static int populated_by_seek(int fd, uint64_t first_page, uint64_t npages, uint64_t *words,
                             struct memory_known *known, struct error *err)
{
    uint64_t page = first_page, end = first_page + npages;

    while (page < end) {
        uint64_t until;

        if (page < known->first_page || page >= known->end_page) {
            int rc = seek_data(fd, page, known, err);

            if (rc <= 0)
                return rc;
            page = known->first_page;
        }
        if (page >= end)
            return 0;
        until = known->end_page < end ? known->end_page : end;
        bitmap_set_range(words, page - first_page, until - page);
        page = until;
    }
    return 0;
}

int memory_populated(const struct memory *memory, unsigned region, uint64_t first_page,
                     uint64_t npages, uint64_t *words, struct memory_known *known,
                     struct error *err)
{
    struct memory_known nothing = {.region = region};
    const struct memory_region *r;

    assert(region < memory->nregions);
    r = &memory->region[region];
    assert(size_range_within(first_page, npages, r->npages));
    memset(words, 0, bitmap_words(npages) * sizeof(*words));
    if (!known)
        known = &nothing;
    else if (known->region != region)
        *known = nothing;
    if (memory->backing == MEMORY_MEMFD)
        return populated_by_seek(r->fd, first_page, npages, words, known, err);
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
