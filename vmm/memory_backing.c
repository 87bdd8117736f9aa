/* SPDX-License-Identifier: MIT
 *
 * The kinds of host memory that can stand behind guest RAM, and how each is mapped. */
#include "vmm/memory_backing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/base/size.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26) /* memfd_create(2): log2 of the page size, shifted */
#endif

static const char *const backing_names[] = {
    [MEMORY_ANON] = "anon",
    [MEMORY_THP] = "thp",
    [MEMORY_MEMFD] = "memfd",
    [MEMORY_HUGETLB] = "hugetlb",
};

#define BACKING_COUNT (sizeof(backing_names) / sizeof(backing_names[0]))

int memory_backing_parse(const char *name, enum memory_backing *backing, struct error *err)
{
    for (size_t i = 0; i < BACKING_COUNT; i++) {
        if (strcmp(name, backing_names[i]) == 0) {
            *backing = (enum memory_backing)i;
            return 0;
        }
    }
    return error_set(err, EINVAL, "'%s' is not a memory backing: write anon, thp, memfd or hugetlb",
                     name);
}

const char *memory_backing_name(enum memory_backing backing)
{
    return (size_t)backing < BACKING_COUNT ? backing_names[backing] : "?";
}

static uint64_t read_huge_counter(const char *counter)
{
    char path[128];
    uint64_t value = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-2048kB/%s", counter);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = 0;
    (void)fclose(file);
    return value;
}

static int missing_huge_pages(uint64_t npages_wanted, struct error *err)
{
    uint64_t wanted = npages_wanted / (MEMORY_HUGE_BYTES / MEMORY_PAGE_BYTES);
    uint64_t nr = read_huge_counter("nr_hugepages");
    uint64_t unused = read_huge_counter("free_hugepages");
    uint64_t reserved = read_huge_counter("resv_hugepages");
    uint64_t available = unused > reserved ? unused - reserved : 0;
    uint64_t missing = wanted > available ? wanted - available : 0;

    return error_set(err, ENOMEM,
                     "%" PRIu64 " huge pages of 2 MiB are needed and %" PRIu64
                     " are free: sysctl vm.nr_hugepages=%" PRIu64 " reserves %" PRIu64 " more",
                     wanted, available, nr + missing, missing);
}

/* Reserves address space and picks the part of it that is congruent to the gpa. */
static int reserve(uint64_t bytes, gpa_t gpa, uint8_t **hva, struct error *err)
{
    uint64_t total = bytes + MEMORY_HUGE_BYTES;
    uint64_t skip;
    uint64_t rest;
    uint8_t *base =
        mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        int code = errno;
        char text[16];
        return error_set(err, code, "no address space for %s of guest RAM: %s",
                         size_format(bytes, text, sizeof(text)), strerror(code));
    }
    skip = (gpa - (uintptr_t)base) % MEMORY_HUGE_BYTES;
    rest = MEMORY_HUGE_BYTES - skip;
    if (skip)
        (void)munmap(base, skip);
    if (rest)
        (void)munmap(base + skip + bytes, rest);
    *hva = base + skip;
    return 0;
}

static int open_memfd(enum memory_backing backing, uint64_t bytes, int *fd, struct error *err)
{
    unsigned flags = MFD_CLOEXEC;
    int code;

    if (backing == MEMORY_HUGETLB)
        flags |= MFD_HUGETLB | MFD_HUGE_2MB;
    *fd = memfd_create("guest-ram", flags);
    if (*fd < 0) {
        code = errno;
        if (backing == MEMORY_HUGETLB && (code == ENODEV || code == EINVAL || code == ENOENT))
            return error_set(err, ENOTSUP, "this kernel has no huge pages of 2 MiB (hugetlbfs)");
        return error_set(err, code, "memfd_create: %s", strerror(code));
    }
    if (ftruncate(*fd, (off_t)bytes)) {
        code = errno;
        return error_set(err, code, "ftruncate of guest RAM: %s", strerror(code));
    }
    return 0;
}

/* Advice is advice: a kernel without transparent huge pages still runs guests. */
static void advise(const struct memory_region *region, enum memory_backing backing)
{
    size_t bytes = (size_t)(region->npages * MEMORY_PAGE_BYTES);

    if (backing == MEMORY_ANON)
        (void)madvise(region->hva, bytes, MADV_NOHUGEPAGE);
    if (backing == MEMORY_THP)
        (void)madvise(region->hva, bytes, MADV_HUGEPAGE);
    /* A child that is forked while the guest runs must not turn all of its RAM copy-on-write. */
    (void)madvise(region->hva, bytes, MADV_DONTFORK);
}

static int check_huge_alignment(const struct memory_region *region, struct error *err)
{
    uint64_t bytes = region->npages * MEMORY_PAGE_BYTES;

    if (region->gpa % MEMORY_HUGE_BYTES || bytes % MEMORY_HUGE_BYTES)
        return error_set(err, EINVAL,
                         "RAM at 0x%" PRIx64 " of 0x%" PRIx64
                         " bytes: hugetlb needs multiples of 2 MiB",
                         region->gpa, bytes);
    return 0;
}

int memory_backing_map(struct memory_region *region, enum memory_backing backing,
                       uint64_t npages_wanted, struct error *err)
{
    uint64_t bytes = region->npages * MEMORY_PAGE_BYTES;
    bool shared = backing == MEMORY_MEMFD || backing == MEMORY_HUGETLB;
    int flags = MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    int result = 0;

    region->fd = -1;
    region->hva = NULL;
    /* Huge pages are reserved by mmap, so that too few of them are an error here and no SIGBUS in
     * the middle of a guest's life. */
    if (backing == MEMORY_HUGETLB)
        result = check_huge_alignment(region, err);
    else
        flags |= MAP_NORESERVE;
    if (!result && shared)
        result = open_memfd(backing, bytes, &region->fd, err);
    if (!result)
        result = reserve(bytes, region->gpa, &region->hva, err);
    if (result)
        goto out;
    if (mmap(region->hva, bytes, PROT_READ | PROT_WRITE, flags, region->fd, 0) == MAP_FAILED) {
        int code = errno;
        if (backing == MEMORY_HUGETLB && code == ENOMEM)
            result = missing_huge_pages(npages_wanted, err);
        else
            result = error_set(err, code, "mmap of guest RAM: %s", strerror(code));
        goto out;
    }
    advise(region, backing);
out:
    if (result)
        memory_backing_unmap(region);
    return result;
}

void memory_backing_unmap(struct memory_region *region)
{
    if (region->hva)
        (void)munmap(region->hva, (size_t)(region->npages * MEMORY_PAGE_BYTES));
    if (region->fd >= 0)
        (void)close(region->fd);
    region->hva = NULL;
    region->fd = -1;
}
