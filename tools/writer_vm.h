/* SPDX-License-Identifier: MIT
 *
 * A VM without a machine: memslots of any size and vCPUs that do nothing but store where they are
 * told, in ring 3 or ring 0. The pages under test lie alone in their slots; code, page tables,
 * lists and mailboxes are in a slot of their own that is never logged, so that the log holds
 * exactly what the job wrote, with nested paging too. What selftest and bench dirty-log dirty pages
 * with.
 *
 * A vCPU waits for its next job by polling its mailbox: held vCPUs are parked meanwhile (their
 * thread is out of KVM_RUN), the others spin in the guest. All calls come from one thread. */
#ifndef TOOLS_WRITER_VM_H
#define TOOLS_WRITER_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/dirty_log.h"
#include "vmm/kvm.h"
#include "vmm/memory.h"

#define WRITER_VM_MAX_CPUS  16
#define WRITER_VM_MAX_SLOTS (MEMORY_MAX_REGIONS - 1)

struct writer_vm_config {
    const uint64_t *npages; /* of each tested slot; region i is slot i */
    unsigned nslots;
    enum memory_backing backing;
    unsigned ncpus;
    unsigned privilege;          /* 3 or 0: the ring that stores */
    uint64_t max_list;           /* longest list of one vCPU, in pages */
    uint32_t dirty_ring_entries; /* 0: no dirty ring */
    const bool *cancelled;       /* atomic, NULL: never; calls that wait end with -ECANCELED */
};

struct writer_vm;

/* Builds the VM; its vCPUs are held. kvm is borrowed until close. */
int writer_vm_open(struct writer_vm **out, const struct kvm *kvm,
                   const struct writer_vm_config *config, struct error *err);
void writer_vm_close(struct writer_vm *vm);

/* For dirty_log_open(); borrowed. Regions 0…nslots-1 are the tested slots. */
const struct dirty_log_vm *writer_vm_log(const struct writer_vm *vm);
struct memory *writer_vm_memory(struct writer_vm *vm);

/* Host threads of the vCPUs, for pinning. 0 or -errno with a line. */
int writer_vm_pin(struct writer_vm *vm, unsigned cpu, int host_cpu, struct error *err);

/* The descriptor of a vCPU, for KVM's counters; the VM's. */
int writer_vm_cpu_fd(const struct writer_vm *vm, unsigned cpu);

/* The gpa of a page of a tested slot. */
gpa_t writer_vm_gpa(const struct writer_vm *vm, unsigned slot, uint64_t page);

/* Sets the list of pages that a vCPU's jobs store to, in this order; copied. */
int writer_vm_set_list(struct writer_vm *vm, unsigned cpu, const gpa_t *pages, uint64_t npages,
                       struct error *err);

/* Held: vCPUs are parked whenever no job runs. Released: they stay in the guest, polling. */
int writer_vm_hold(struct writer_vm *vm, bool held, struct error *err);

/* Every vCPU has left the guest once when this returns: KVM has logged what it held back till then
 * (PML). Released ones are back in the guest, or on their way. */
int writer_vm_kick(struct writer_vm *vm, struct error *err);

/* Parks all vCPUs as a machine's pause does, or one after the other; then they run again. vCPUs
 * must be released. *ns: until the last was parked. */
int writer_vm_pause(struct writer_vm *vm, bool in_turn, uint64_t *ns, struct error *err);

struct writer_vm_result {
    uint64_t guest_ns; /* the longest vCPU's time over its list by the guest's own TSC; 0 where its
                          frequency is unknown */
    uint64_t stores;
};

/* Every vCPU stores `value` (64 bits) at byte 8 * cpu of each page of its list, once. Returns when
 * all are through. -EIO with the reason where a vCPU ended, -ETIME where none made progress for
 * long. */
int writer_vm_write(struct writer_vm *vm, uint64_t value, struct writer_vm_result *result,
                    struct error *err);

/* From roam on, every vCPU stores increasing numbers into pages of its list in pseudo-random order,
 * until writer_vm_settle(): each store, at byte 8 * cpu, is its vCPU's number of stores so far, so
 * that no two stores of a vCPU are alike. vCPUs must be released. */
int writer_vm_roam(struct writer_vm *vm, struct error *err);
int writer_vm_settle(struct writer_vm *vm, struct error *err);

/* Stores that a roaming vCPU has made; readable while it runs. */
uint64_t writer_vm_stores(const struct writer_vm *vm, unsigned cpu);
/* Waits until every vCPU has made `more` further stores; errors as writer_vm_write(). */
int writer_vm_await(struct writer_vm *vm, uint64_t more, struct error *err);

#endif
