/* SPDX-License-Identifier: MIT
 *
 * Dirty tracking of all memslots behind one interface, whatever the kernel mechanism.
 *
 *   sync   fetches what became dirty since the last sync into "pending"
 *   claim  moves a chunk out of pending, merges the VMM's own writes, and re-protects it
 *
 * Only after claim() returned may the contents of the claimed pages be read: a store that comes
 * later is in the next sync. Not thread-safe: one engine thread uses it, while vCPUs and devices
 * run. Regions with `unlogged` are left out everywhere. */
#ifndef VMM_DIRTY_LOG_H
#define VMM_DIRTY_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/memory.h"

enum dirty_log_backend {
    DIRTY_LOG_GET,   /* KVM_GET_DIRTY_LOG fetches and re-protects a whole slot at once (api.rst 4.8)
                      */
    DIRTY_LOG_CLEAR, /* manual protect: GET only fetches, KVM_CLEAR_DIRTY_LOG re-protects
                        (4.117, 7.18) */
    DIRTY_LOG_RING,  /* every vCPU lists the pages it dirties (8.29); the VM's for life, and it
                        excludes the other two */
};

#define DIRTY_LOG_NBACKENDS 3

struct dirty_log;
struct dirty_rings;

const char *dirty_log_backend_name(enum dirty_log_backend backend);
int dirty_log_backend_parse(const char *name, enum dirty_log_backend *backend, struct error *err);
bool dirty_log_supported(const struct kvm *kvm, enum dirty_log_backend backend);

/* A VM's logging as its owner sees it; all borrowed until close. */
struct dirty_log_vm {
    const struct kvm *kvm;
    int vm_fd;
    struct memory *memory;
    struct dirty_rings *rings; /* NULL where the VM was made without them */
};

/* Can this VM use the backend? -ENOTSUP with the reason. */
int dirty_log_check(const struct dirty_log_vm *vm, enum dirty_log_backend backend,
                    struct error *err);

/* The best backend for a VM: its ring where it has one, else clear where there is manual protect,
 * else get. rings may be NULL. */
enum dirty_log_backend dirty_log_best(const struct kvm *kvm, const struct dirty_rings *rings);

/* Which ranges of a claimed chunk backend `clear` hands to KVM_CLEAR_DIRTY_LOG. None is ever longer
 * than chunk_pages, and a chunk without a dirty page costs no ioctl in any of them. */
enum dirty_log_ranges {
    DIRTY_LOG_RANGES_NARROW, /* one: from the first to the last word with a dirty page */
    DIRTY_LOG_RANGES_WHOLE,  /* one: the chunk */
    DIRTY_LOG_RANGES_SPLIT,  /* one for every stretch of words with dirty pages */
};

#define DIRTY_LOG_CHUNK_PAGES 16384u

struct dirty_log_options {
    enum dirty_log_backend backend;
    uint32_t chunk_pages; /* clear: longest range of one ioctl, a multiple of 64; 0 =
                             DIRTY_LOG_CHUNK_PAGES */
    enum dirty_log_ranges ranges;
};

/* Switches logging on for every slot. Everything is pending at first: the first claims are the full
 * copy. Fails as dirty_log_check() does. */
int dirty_log_open(struct dirty_log **out, const struct dirty_log_vm *vm,
                   const struct dirty_log_options *options, struct error *err);

/* Logging off on every slot, everything freed. NULL is fine. */
void dirty_log_close(struct dirty_log *log);

/* What one sync found. */
struct dirty_log_sync {
    uint64_t pending_pages; /* what a full set of claims would now yield */
    struct {
        uint64_t pending_pages;
        uint64_t ns; /* fetching this slot; 0 with the ring, which is one for all slots */
    } slot[MEMORY_MAX_REGIONS];
};

/* Fetches all slots. */
int dirty_log_sync(struct dirty_log *log, struct dirty_log_sync *found, struct error *err);

/* Claims [first_page, first_page + npages) of a region: *words are the chunk's dirty pages, bit 0
 * being first_page. They stay valid, and may be changed, until the next sync, close, or claim that
 * overlaps this one; claims of one region between two syncs lie in one array, side by side as their
 * pages do. first_page must be a multiple of 64, npages too unless the range ends the
 * region. A chunk without pending pages costs no ioctl. */
int dirty_log_claim(struct dirty_log *log, unsigned region, uint64_t first_page, uint64_t npages,
                    uint64_t **words, struct error *err);

/* What the kernel took so far. */
struct dirty_log_cost {
    uint64_t nioctls;
    uint64_t ioctl_ns;
    uint64_t longest_ns; /* the longest single ioctl: about how long KVM held its lock; opening
                            counts all slots as one */
};

/* Adds up since open, or since the last reset. */
struct dirty_log_cost dirty_log_cost(const struct dirty_log *log);
void dirty_log_cost_reset(struct dirty_log *log);

#endif
