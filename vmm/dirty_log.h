/* SPDX-License-Identifier: MIT
 *
 * Dirty tracking of all memslots behind one interface, whatever the kernel mechanism.
 *
 *   sync   fetches what became dirty since the last sync into "pending"
 *   claim  moves a chunk out of pending, merges the VMM's own writes, and re-protects it
 *
 * Only after claim() returned may the contents of the claimed pages be read: a store that comes
 * later is in the next sync. Not thread-safe: one engine thread uses it, while vCPUs and devices
 * run. */
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
};

#define DIRTY_LOG_NBACKENDS 2

struct dirty_log;

const char *dirty_log_backend_name(enum dirty_log_backend backend);
int dirty_log_backend_parse(const char *name, enum dirty_log_backend *backend, struct error *err);
bool dirty_log_supported(const struct kvm *kvm, enum dirty_log_backend backend);
/* The best backend this host offers: clear where there is manual protect, else get. */
enum dirty_log_backend dirty_log_best(const struct kvm *kvm);

/* Switches logging on for every slot. Everything is pending at first: the first claims are the full
 * copy. kvm and memory are borrowed until close. -ENOTSUP where the host lacks the backend. */
int dirty_log_open(struct dirty_log **out, const struct kvm *kvm, int vm_fd, struct memory *memory,
                   enum dirty_log_backend backend, struct error *err);

/* Logging off on every slot, everything freed. NULL is fine. */
void dirty_log_close(struct dirty_log *log);

/* Fetches all slots. *pending_pages is what a full set of claims would now yield. */
int dirty_log_sync(struct dirty_log *log, uint64_t *pending_pages, struct error *err);

/* Claims [first_page, first_page + npages) of a region: words (bitmap_words(npages), overwritten)
 * gets the dirty pages. first_page must be a multiple of 64, npages too unless the range ends the
 * region. A chunk without pending pages costs no ioctl. */
int dirty_log_claim(struct dirty_log *log, unsigned region, uint64_t first_page, uint64_t npages,
                    uint64_t *words, struct error *err);

#endif
