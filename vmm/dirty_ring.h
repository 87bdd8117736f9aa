/* SPDX-License-Identifier: MIT
 *
 * The dirty rings of a VM's vCPUs (api.rst 8.29 KVM_CAP_DIRTY_LOG_RING_ACQ_REL): each vCPU lists
 * the pages that it dirties in a ring that it shares with user space. Harvested entries are
 * collected as bits, and the pages are re-protected (KVM_RESET_DIRTY_RINGS) before anybody is told
 * of them, so that no reader of a page can be ahead of its protection.
 *
 * Rings are chosen before the first vCPU is made and stay for the VM's life; GET and CLEAR do not
 * work beside them. */
#ifndef VMM_DIRTY_RING_H
#define VMM_DIRTY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/memory.h"

#define DIRTY_RING_ENTRY_BYTES     16u
#define DIRTY_RING_DEFAULT_ENTRIES 16384u
/* KVM wants at least a page of entries; hosts that need more (PML) say so when the VM is made. */
#define DIRTY_RING_MIN_ENTRIES (MEMORY_PAGE_BYTES / DIRTY_RING_ENTRY_BYTES)

struct dirty_rings;

/* Is `entries` a size that this host's rings can have (a power of two, at least a page of entries,
 * at most the host's limit)? -EINVAL with what can be, -ENOTSUP where there are no rings. */
int dirty_rings_check(const struct kvm *kvm, uint64_t entries, struct error *err);

/* Switches the rings on for a VM that has no vCPU yet. kvm is borrowed. */
int dirty_rings_open(struct dirty_rings **out, const struct kvm *kvm, int vm_fd, unsigned ncpus,
                     uint32_t entries, struct error *err);
/* NULL is fine. */
void dirty_rings_close(struct dirty_rings *rings);

uint32_t dirty_rings_entries(const struct dirty_rings *rings);

/* Maps the ring of a vCPU that was just made. */
int dirty_rings_attach(struct dirty_rings *rings, unsigned cpu, int vcpu_fd, struct error *err);

/* From start on harvested entries are kept, as bits of `memory`'s regions; from stop on dropped. */
int dirty_rings_start(struct dirty_rings *rings, const struct memory *memory, struct error *err);
void dirty_rings_stop(struct dirty_rings *rings);

/* Harvests one ring or all, resets what was harvested, all of it. *found gets the number of
 * entries, repeated ones counted; *reset_ns (may be NULL) the time of the ioctls, 0 where there was
 * nothing to reset. Any thread. A vCPU's own thread calls the first when KVM_RUN ended with
 * KVM_EXIT_DIRTY_RING_FULL.
 *
 * A page that a running vCPU has just stored to may not be listed yet: with PML (Intel) KVM lists
 * up to 512 of them when the vCPU leaves the guest next, at the latest when it is parked.
 *
 * A ring in which every entry is dirty was run over: KVM stops a vCPU well before that, and what
 * the entries held before is lost. Nor can a ring be trusted whose entries KVM does not reset. That
 * is -EOVERFLOW from then on, whoever asks. */
int dirty_rings_harvest_cpu(struct dirty_rings *rings, unsigned cpu, uint64_t *found,
                            struct error *err);
int dirty_rings_harvest(struct dirty_rings *rings, uint64_t *found, uint64_t *reset_ns,
                        struct error *err);

/* Moves what was collected for a region into *words: ORed, or, where `replace`, in place of what is
 * there, for which *words (from malloc) may be exchanged. Returns how many bits *words has then. */
uint64_t dirty_rings_take(struct dirty_rings *rings, unsigned region, uint64_t **words,
                          bool replace);

/* Entries of this vCPU's ring that were harvested so far: what it dirtied, repeats counted. */
uint64_t dirty_rings_harvested(const struct dirty_rings *rings, unsigned cpu);

/* KVM_EXIT_DIRTY_RING_FULL so far, all vCPUs. */
uint64_t dirty_rings_full_exits(const struct dirty_rings *rings);

#endif
