/* SPDX-License-Identifier: MIT
 *
 * Guest RAM: host mappings, memslots, and the one checked way from a gpa to a host address. */
#ifndef VMM_MEMORY_H
#define VMM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"

#define MEMORY_PAGE_BYTES  4096u
#define MEMORY_MAX_REGIONS 32
/* RAM that does not fit below this goes to a second region at 4 GiB. */
#define MEMORY_GAP_START 0xc0000000ull
#define MEMORY_GAP_END   0x100000000ull

enum memory_backing {
    MEMORY_ANON,    /* 4 KiB pages (MADV_NOHUGEPAGE) */
    MEMORY_THP,     /* anonymous, MADV_HUGEPAGE */
    MEMORY_MEMFD,   /* memfd_create, shareable */
    MEMORY_HUGETLB, /* memfd_create with MFD_HUGETLB, 2 MiB pages */
};

/* One contiguous range of RAM = one memslot; slot number == index. */
struct memory_region {
    gpa_t gpa;
    uint64_t npages;
    uint8_t *hva;
    uint64_t *vmm_dirty; /* pages the VMM wrote since last harvested; atomic words */
    int fd;              /* -1 where the backing has none */
    bool vmm_marked;     /* atomic: set after a mark, so that nobody scans vmm_dirty for nothing */
    bool unlogged;       /* never logged nor migrated: a VMM's own scratch */
};

struct memory {
    struct memory_region region[MEMORY_MAX_REGIONS];
    unsigned nregions;
    enum memory_backing backing;
};

/* Name -> backing and back. memory_backing_parse() returns -EINVAL with the list of names. */
int memory_backing_parse(const char *name, enum memory_backing *backing, struct error *err);
const char *memory_backing_name(enum memory_backing backing);

/* Maps RAM for the given ranges (gpa and length page-aligned, not overlapping: -EINVAL otherwise)
 * without touching it. -ENOMEM says how many huge pages are missing and how to reserve them. */
int memory_create(struct memory *memory, const struct memory_region *ranges, unsigned nranges,
                  enum memory_backing backing, struct error *err);
void memory_destroy(struct memory *memory);

/* Registers every region as a memslot of the VM, with KVM_MEM_LOG_DIRTY_PAGES (but for `unlogged`
 * ones) or without. Calling it again changes the flag. api.rst 4.35 KVM_SET_USER_MEMORY_REGION. */
int memory_set_slots(const struct memory *memory, int vm_fd, bool log_dirty, struct error *err);

/* The regions' descriptors are files that read(2), write(2) and splice(2) work on, too. */
static inline bool memory_in_file(const struct memory *memory)
{
    return memory->backing == MEMORY_MEMFD;
}

/* Host address of [gpa, gpa + bytes), or NULL unless the whole range lies in one region.
 * Overflow-safe. For reading: a writer uses memory_write(), or calls memory_mark_written() after
 * its last store. */
void *memory_at(const struct memory *memory, gpa_t gpa, uint64_t bytes);

/* Copies out of or into guest RAM; -EFAULT where the range is not wholly RAM. memory_write() marks
 * the pages after the store: KVM logs only what vCPUs write. Callable from any thread. */
int memory_read(const struct memory *memory, gpa_t gpa, void *buffer, uint64_t bytes);
int memory_write(struct memory *memory, gpa_t gpa, const void *buffer, uint64_t bytes);
void memory_mark_written(struct memory *memory, gpa_t gpa, uint64_t bytes);

/* Moves the marks of a region into `into` (ORed). False, and nothing looked at, where none was made
 * since the last call. */
bool memory_take_marks(struct memory *memory, unsigned region, uint64_t *into);
/* The same for a part of it: words first_word…; a mark that races may be left for the next call. */
bool memory_take_marks_range(struct memory *memory, unsigned region, size_t first_word,
                             size_t nwords, uint64_t *into);

/* The pages with data in a row that memory_populated() found last, beyond those it was asked about.
 * All zero before the first call. What has been released since is told as populated still. */
struct memory_extent {
    unsigned region;
    uint64_t first_page, end_page;
};

/* Sets in `words` (bitmap_words(npages), zeroed here) the pages of [first, first + npages) that
 * hold something: present or swapped by /proc/self/pagemap for private memory and hugetlb,
 * SEEK_DATA for memfd. The others read as zero and were never touched.
 * `last` is for a walk in pieces (NULL: none): SEEK_HOLE looks as far as there is data, and from
 * every piece again the walk's time would grow with the square of the size. */
int memory_populated(const struct memory *memory, unsigned region, uint64_t first_page,
                     uint64_t npages, uint64_t *words, struct memory_extent *last,
                     struct error *err);

/* Moves the bits of pages that read as zero from `data` to `zero`; of [first_page, first_page +
 * npages). Memory in a file is read through it: a mapping that nobody used yet would have to be
 * made page by page. */
int memory_sort_zeros(const struct memory *memory, unsigned region, uint64_t first_page,
                      uint64_t npages, uint64_t *data, uint64_t *zero, struct error *err);

/* Makes pages present ahead of being written (MADV_POPULATE_WRITE); contents stay. Any thread. */
int memory_populate(const struct memory *memory, unsigned region, uint64_t first_page,
                    uint64_t npages, struct error *err);

#endif
