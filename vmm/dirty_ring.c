/* SPDX-License-Identifier: MIT */
#include "vmm/dirty_ring.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"

_Static_assert(sizeof(struct kvm_dirty_gfn) == DIRTY_RING_ENTRY_BYTES, "an entry's size is ABI");

/* Resets in a row that reset nothing, each ended by another signal, before KVM is taken to be
 * broken. */
#define RESET_TRIES 1000u

struct ring {
    struct kvm_dirty_gfn *entries; /* shared with the kernel */
    uint32_t next;                 /* index of the first entry not harvested yet; wraps */
    uint64_t harvested;            /* atomic: entries so far */
};

struct dirty_rings {
    int vm_fd; /* borrowed */
    unsigned ncpus;
    uint32_t nentries;
    uint64_t full_exits; /* atomic */

    pthread_mutex_t lock; /* the following */
    bool keep;
    bool overrun;
    uint64_t unreset; /* entries that were handed back, and that KVM has not reset yet */
    unsigned nregions;
    uint64_t npages[MEMORY_MAX_REGIONS];
    uint64_t *collected[MEMORY_MAX_REGIONS]; /* re-protected, not taken yet */
    bool any[MEMORY_MAX_REGIONS];            /* collected has a bit */
    struct ring ring[];
};

int dirty_rings_check(const struct kvm *kvm, uint64_t entries, struct error *err)
{
    uint64_t most = kvm->dirty_ring_max / DIRTY_RING_ENTRY_BYTES;

    if (!most)
        return error_set(err, ENOTSUP,
                         "this host's KVM has no dirty ring (KVM_CAP_DIRTY_LOG_RING): use the "
                         "dirty bitmap");
    if (entries < DIRTY_RING_MIN_ENTRIES || entries > most || (entries & (entries - 1)))
        return error_set(err, EINVAL,
                         "a dirty ring of %" PRIu64 " entries: it must be a power of two from %u "
                         "to %" PRIu64,
                         entries, DIRTY_RING_MIN_ENTRIES, most);
    return 0;
}

int dirty_rings_open(struct dirty_rings **out, const struct kvm *kvm, int vm_fd, unsigned ncpus,
                     uint32_t entries, struct error *err)
{
    struct kvm_enable_cap cap = {.cap = kvm->dirty_ring_capability,
                                 .args = {(uint64_t)entries * DIRTY_RING_ENTRY_BYTES}};
    struct dirty_rings *rings;
    int result = dirty_rings_check(kvm, entries, err);

    *out = NULL;
    if (result)
        return result;
    result = KVM_IOCTL(vm_fd, KVM_ENABLE_CAP, &cap, err);
    if (result < 0) {
        error_prefix(err, "a dirty ring of %u entries%s", entries,
                     result == -EINVAL ? " (this host may need a larger one)" : "");
        return result;
    }
    rings = calloc(1, sizeof(*rings) + ncpus * sizeof(rings->ring[0]));
    if (!rings)
        return error_set(err, ENOMEM, "no memory for the dirty rings");
    rings->vm_fd = vm_fd;
    rings->ncpus = ncpus;
    rings->nentries = entries;
    pthread_mutex_init(&rings->lock, NULL);
    *out = rings;
    return 0;
}

static size_t ring_bytes(const struct dirty_rings *rings)
{
    return (size_t)rings->nentries * DIRTY_RING_ENTRY_BYTES;
}

static void forget(struct dirty_rings *rings)
{
    for (unsigned i = 0; i < MEMORY_MAX_REGIONS; i++) {
        free(rings->collected[i]);
        rings->collected[i] = NULL;
        rings->any[i] = false;
    }
    rings->nregions = 0;
    rings->keep = false;
}

void dirty_rings_close(struct dirty_rings *rings)
{
    if (!rings)
        return;
    for (unsigned i = 0; i < rings->ncpus; i++) {
        if (rings->ring[i].entries)
            (void)munmap(rings->ring[i].entries, ring_bytes(rings));
    }
    forget(rings);
    pthread_mutex_destroy(&rings->lock);
    free(rings);
}

uint32_t dirty_rings_entries(const struct dirty_rings *rings)
{
    return rings->nentries;
}

int dirty_rings_attach(struct dirty_rings *rings, unsigned cpu, int vcpu_fd, struct error *err)
{
    void *entries = mmap(NULL, ring_bytes(rings), PROT_READ | PROT_WRITE, MAP_SHARED, vcpu_fd,
                         (off_t)KVM_DIRTY_LOG_PAGE_OFFSET * (off_t)sysconf(_SC_PAGESIZE));

    if (entries == MAP_FAILED) {
        int code = errno;

        return error_set(err, code, "vCPU %u: mmap of the dirty ring: %s", cpu, strerror(code));
    }
    rings->ring[cpu].entries = entries;
    return 0;
}

/* Bits 16… of slot are the address space, of which ours has one. */
static void collect(struct dirty_rings *rings, uint32_t slot, uint64_t page)
{
    if (rings->keep && slot < rings->nregions && page < rings->npages[slot]) {
        bitmap_set(rings->collected[slot], page);
        rings->any[slot] = true;
    }
}

/* A ring that was run over: KVM goes on as many entries ahead of its own reset index, and of us, as
 * it wrote too many. Handing those over once more lets it go on; what they held is lost. */
static void step_over(const struct dirty_rings *rings, struct ring *ring)
{
    uint32_t mask = rings->nentries - 1;
    uint32_t ahead = 0;

    while (ahead < rings->nentries &&
           __atomic_load_n(&ring->entries[(ring->next + ahead) & mask].flags, __ATOMIC_ACQUIRE) !=
               KVM_DIRTY_GFN_F_DIRTY)
        ahead++;
    if (ahead == rings->nentries)
        return;
    for (; ahead; ahead--, ring->next++)
        __atomic_store_n(&ring->entries[ring->next & mask].flags, KVM_DIRTY_GFN_F_RESET,
                         __ATOMIC_RELEASE);
}

/* Harvests what is there now: at most a ring full, because an entry is not used again before it is
 * reset. */
static uint64_t harvest_ring(struct dirty_rings *rings, struct ring *ring)
{
    uint64_t found = 0;

    if (rings->overrun)
        step_over(rings, ring);
    while (found < rings->nentries) {
        struct kvm_dirty_gfn *entry = &ring->entries[ring->next & (rings->nentries - 1)];

        /* Acquire: slot and offset were stored before the flag. Release: they were read before it
         * changes (api.rst 8.29). */
        if (__atomic_load_n(&entry->flags, __ATOMIC_ACQUIRE) != KVM_DIRTY_GFN_F_DIRTY)
            break;
        collect(rings, entry->slot, entry->offset);
        __atomic_store_n(&entry->flags, KVM_DIRTY_GFN_F_RESET, __ATOMIC_RELEASE);
        ring->next++;
        found++;
    }
    if (found == rings->nentries)
        rings->overrun = true;
    (void)__atomic_fetch_add(&ring->harvested, found, __ATOMIC_RELAXED);
    return found;
}

/* Until all that was handed back is reset: newer kernels end the ioctl early where a signal is
 * pending (a vCPU that is about to be parked has one) and say how far it came, 0 included. Back
 * in user space the signal is handled, and the next try gets further. */
static int reset_pages(struct dirty_rings *rings, struct error *err)
{
    unsigned futile = 0;

    while (rings->unreset && futile < RESET_TRIES) {
        int result = KVM_IOCTL(rings->vm_fd, KVM_RESET_DIRTY_RINGS, NULL, err);
        uint64_t done = result > 0 ? (uint64_t)result : 0;

        if (result < 0 && result != -EINTR)
            return result;
        futile = done ? 0 : futile + 1;
        rings->unreset -= done < rings->unreset ? done : rings->unreset;
        /* Its own indices no longer agree with ours: it resets what it can. */
        if (rings->overrun)
            rings->unreset = 0;
    }
    if (rings->unreset) {
        rings->overrun = true;
        rings->unreset = 0;
    }
    return 0;
}

/* Under the lock, so that nobody takes a bit whose page is not re-protected yet. */
static int drain(struct dirty_rings *rings, unsigned first, unsigned end, uint64_t *found,
                 uint64_t *reset_ns, struct error *err)
{
    *found = 0;
    for (unsigned i = first; i < end; i++) {
        if (rings->ring[i].entries)
            *found += harvest_ring(rings, &rings->ring[i]);
    }
    rings->unreset += *found;
    if (rings->unreset) {
        uint64_t begin_ns = clock_now_ns();
        int result = reset_pages(rings, err);

        if (reset_ns)
            *reset_ns = clock_now_ns() - begin_ns;
        if (result < 0)
            return result;
    }
    if (rings->overrun)
        return error_set(err, EOVERFLOW,
                         "a dirty ring of %u entries was run over: this host's KVM did not stop "
                         "the vCPU in time, or did not reset the ring, and dirty pages are lost "
                         "(pageferry selftest tests it)",
                         rings->nentries);
    return 0;
}

int dirty_rings_start(struct dirty_rings *rings, const struct memory *memory, struct error *err)
{
    int result = 0;

    pthread_mutex_lock(&rings->lock);
    rings->nregions = memory->nregions;
    for (unsigned i = 0; !result && i < memory->nregions; i++) {
        rings->npages[i] = memory->region[i].npages;
        rings->collected[i] = calloc(bitmap_words(rings->npages[i]), sizeof(uint64_t));
        if (!rings->collected[i])
            result = error_set(err, ENOMEM, "no memory for the dirty rings' bitmaps");
    }
    rings->keep = !result;
    if (result)
        forget(rings);
    pthread_mutex_unlock(&rings->lock);
    return result;
}

void dirty_rings_stop(struct dirty_rings *rings)
{
    uint64_t found = 0;

    pthread_mutex_lock(&rings->lock);
    rings->keep = false;
    /* What is left would count against the next log's room. */
    (void)drain(rings, 0, rings->ncpus, &found, NULL, NULL);
    forget(rings);
    pthread_mutex_unlock(&rings->lock);
}

int dirty_rings_harvest_cpu(struct dirty_rings *rings, unsigned cpu, uint64_t *found,
                            struct error *err)
{
    int result;

    __atomic_fetch_add(&rings->full_exits, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&rings->lock);
    result = drain(rings, cpu, cpu + 1, found, NULL, err);
    pthread_mutex_unlock(&rings->lock);
    return result;
}

int dirty_rings_harvest(struct dirty_rings *rings, uint64_t *found, uint64_t *reset_ns,
                        struct error *err)
{
    int result;

    pthread_mutex_lock(&rings->lock);
    result = drain(rings, 0, rings->ncpus, found, reset_ns, err);
    pthread_mutex_unlock(&rings->lock);
    return result;
}

uint64_t dirty_rings_take(struct dirty_rings *rings, unsigned region, uint64_t **words,
                          bool replace)
{
    uint64_t npages = rings->npages[region];
    size_t bytes = bitmap_words(npages) * sizeof(uint64_t);
    uint64_t *collected;
    uint64_t count = 0;

    pthread_mutex_lock(&rings->lock);
    collected = rings->collected[region];
    if (!rings->any[region]) {
        if (replace)
            memset(*words, 0, bytes);
        else
            count = bitmap_count(*words, npages);
    } else if (replace) {
        rings->collected[region] = *words;
        *words = collected;
        memset(rings->collected[region], 0, bytes);
        count = bitmap_count(collected, npages);
    } else {
        count = bitmap_merge(*words, collected, npages);
        memset(collected, 0, bytes);
    }
    rings->any[region] = false;
    pthread_mutex_unlock(&rings->lock);
    return count;
}

uint64_t dirty_rings_full_exits(const struct dirty_rings *rings)
{
    return __atomic_load_n(&rings->full_exits, __ATOMIC_RELAXED);
}

uint64_t dirty_rings_harvested(const struct dirty_rings *rings, unsigned cpu)
{
    return __atomic_load_n(&rings->ring[cpu].harvested, __ATOMIC_RELAXED);
}
