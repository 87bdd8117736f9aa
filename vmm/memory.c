/* SPDX-License-Identifier: MIT
 *
 * Guest RAM as a few ranges, and the accessors through which everything but a vCPU reaches it. */
#include "vmm/memory.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/size.h"
#include "vmm/memory_backing.h"

/* KVM_MEM_MAX_NR_PAGES: one slot's page numbers fit 31 bits. */
#define MEMORY_MAX_REGION_PAGES ((1ull << 31) - 1)

static uint64_t region_bytes(const struct memory_region *region)
{
    return region->npages * MEMORY_PAGE_BYTES;
}

static int check_ranges(const struct memory_region *ranges, unsigned nranges, struct error *err)
{
    if (!nranges || nranges > MEMORY_MAX_REGIONS)
        return error_set(err, EINVAL, "%u ranges of RAM: 1 to %d are possible", nranges,
                         MEMORY_MAX_REGIONS);
    for (unsigned i = 0; i < nranges; i++) {
        const struct memory_region *a = &ranges[i];

        if (a->gpa % MEMORY_PAGE_BYTES || !a->npages || a->npages > MEMORY_MAX_REGION_PAGES ||
            !size_range_within(a->gpa, region_bytes(a), UINT64_MAX))
            return error_set(err, EINVAL,
                             "RAM at 0x%" PRIx64 ", %" PRIu64 " pages: not a valid range", a->gpa,
                             a->npages);
        for (unsigned j = 0; j < i; j++) {
            const struct memory_region *b = &ranges[j];
            if (a->gpa < b->gpa + region_bytes(b) && b->gpa < a->gpa + region_bytes(a))
                return error_set(err, EINVAL, "RAM at 0x%" PRIx64 " overlaps RAM at 0x%" PRIx64,
                                 a->gpa, b->gpa);
        }
    }
    return 0;
}

int memory_create(struct memory *memory, const struct memory_region *ranges, unsigned nranges,
                  enum memory_backing backing, struct error *err)
{
    uint64_t wanted = 0;
    int result;

    memset(memory, 0, sizeof(*memory));
    memory->backing = backing;
    result = check_ranges(ranges, nranges, err);
    if (result)
        return result;
    for (unsigned i = 0; i < nranges; i++)
        wanted += ranges[i].npages;
    for (unsigned i = 0; i < nranges && !result; i++) {
        struct memory_region *region = &memory->region[i];

        region->gpa = ranges[i].gpa;
        region->npages = ranges[i].npages;
        region->unlogged = ranges[i].unlogged;
        result = memory_backing_map(region, backing, wanted, err);
        if (result)
            break;
        wanted -= region->npages;
        memory->nregions = i + 1;
        region->vmm_dirty = calloc(bitmap_words(region->npages), sizeof(uint64_t));
        if (!region->vmm_dirty)
            result = error_set(err, ENOMEM, "no memory for the bitmap of pages the VMM wrote");
    }
    if (result)
        memory_destroy(memory);
    return result;
}

void memory_destroy(struct memory *memory)
{
    for (unsigned i = 0; i < memory->nregions; i++) {
        memory_backing_unmap(&memory->region[i]);
        free(memory->region[i].vmm_dirty);
        memory->region[i].vmm_dirty = NULL;
    }
    memory->nregions = 0;
}

int memory_set_slots(const struct memory *memory, int vm_fd, bool log_dirty, struct error *err)
{
    int first_failure = 0;

    /* All slots are tried: logging that is to go off goes off wherever it can. */
    for (unsigned i = 0; i < memory->nregions; i++) {
        const struct memory_region *region = &memory->region[i];
        struct kvm_userspace_memory_region slot = {
            .slot = i,
            .flags = log_dirty && !region->unlogged ? KVM_MEM_LOG_DIRTY_PAGES : 0,
            .guest_phys_addr = region->gpa,
            .memory_size = region_bytes(region),
            .userspace_addr = (uintptr_t)region->hva,
        };
        struct error *line = first_failure ? NULL : err;
        int result = KVM_IOCTL(vm_fd, KVM_SET_USER_MEMORY_REGION, &slot, line);

        if (result < 0 && !first_failure) {
            error_prefix(line, "RAM slot %u at 0x%" PRIx64, i, region->gpa);
            first_failure = result;
        }
    }
    return first_failure;
}

/* The region that holds the byte at gpa, and how many bytes it has from there on. */
static const struct memory_region *find_region(const struct memory *memory, gpa_t gpa,
                                               uint64_t *rest)
{
    for (unsigned i = 0; i < memory->nregions; i++) {
        const struct memory_region *region = &memory->region[i];

        if (gpa >= region->gpa && gpa - region->gpa < region_bytes(region)) {
            *rest = region_bytes(region) - (gpa - region->gpa);
            return region;
        }
    }
    return NULL;
}

void *memory_at(const struct memory *memory, gpa_t gpa, uint64_t bytes)
{
    uint64_t rest;
    const struct memory_region *region = find_region(memory, gpa, &rest);

    return region && bytes <= rest ? region->hva + (gpa - region->gpa) : NULL;
}

/* A range may span regions that touch. */
static bool wholly_ram(const struct memory *memory, gpa_t gpa, uint64_t bytes)
{
    uint64_t rest;

    if (!size_range_within(gpa, bytes, UINT64_MAX))
        return false;
    while (find_region(memory, gpa, &rest)) {
        if (bytes <= rest)
            return true;
        gpa += rest;
        bytes -= rest;
    }
    return false;
}

int memory_read(const struct memory *memory, gpa_t gpa, void *buffer, uint64_t bytes)
{
    uint8_t *to = buffer;

    if (!wholly_ram(memory, gpa, bytes))
        return -EFAULT;
    while (bytes) {
        uint64_t rest = 0;
        const struct memory_region *region = find_region(memory, gpa, &rest);
        uint64_t take = bytes < rest ? bytes : rest;

        memcpy(to, region->hva + (gpa - region->gpa), (size_t)take);
        to += take;
        gpa += take;
        bytes -= take;
    }
    return 0;
}

int memory_write(struct memory *memory, gpa_t gpa, const void *buffer, uint64_t bytes)
{
    const uint8_t *from = buffer;

    /* All or nothing: a refused write has changed no byte. */
    if (!wholly_ram(memory, gpa, bytes))
        return -EFAULT;
    while (bytes) {
        uint64_t rest = 0;
        const struct memory_region *region = find_region(memory, gpa, &rest);
        uint64_t take = bytes < rest ? bytes : rest;

        memcpy(region->hva + (gpa - region->gpa), from, (size_t)take);
        memory_mark_written(memory, gpa, take);
        from += take;
        gpa += take;
        bytes -= take;
    }
    return 0;
}

void memory_mark_written(struct memory *memory, gpa_t gpa, uint64_t bytes)
{
    assert(!bytes || wholly_ram(memory, gpa, bytes));
    while (bytes) {
        uint64_t rest = 0;
        const struct memory_region *found = find_region(memory, gpa, &rest);
        struct memory_region *region;
        uint64_t take = bytes < rest ? bytes : rest;
        uint64_t first;
        uint64_t last;

        if (!found)
            return;
        region = &memory->region[found - memory->region];
        first = (gpa - region->gpa) / MEMORY_PAGE_BYTES;
        last = (gpa - region->gpa + take - 1) / MEMORY_PAGE_BYTES;
        for (uint64_t page = first; page <= last; page++)
            bitmap_set_atomic(region->vmm_dirty, page);
        /* Not a plain store: whoever sees the last marker's must see the earlier ones' bits too. */
        (void)__atomic_exchange_n(&region->vmm_marked, true, __ATOMIC_RELEASE);
        gpa += take;
        bytes -= take;
    }
}

bool memory_take_marks_range(struct memory *memory, unsigned region, size_t first_word,
                             size_t nwords, uint64_t *into)
{
    uint64_t *marks = memory->region[region].vmm_dirty + first_word;

    if (!__atomic_load_n(&memory->region[region].vmm_marked, __ATOMIC_ACQUIRE))
        return false;
    for (size_t w = 0; w < nwords; w++)
        into[w] |= bitmap_take_word_atomic(&marks[w]);
    return true;
}

bool memory_take_marks(struct memory *memory, unsigned region, uint64_t *into)
{
    struct memory_region *r = &memory->region[region];

    if (!__atomic_load_n(&r->vmm_marked, __ATOMIC_RELAXED))
        return false;
    /* Down before the look: a mark made meanwhile raises it again and is found next time. */
    (void)__atomic_exchange_n(&r->vmm_marked, false, __ATOMIC_ACQUIRE);
    for (size_t w = 0; w < bitmap_words(r->npages); w++)
        into[w] |= bitmap_take_word_atomic(&r->vmm_dirty[w]);
    return true;
}
