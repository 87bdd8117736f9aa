/* SPDX-License-Identifier: MIT
 *
 * What writer_vm*.c share. */
#ifndef TOOLS_WRITER_VM_INTERNAL_H
#define TOOLS_WRITER_VM_INTERNAL_H

#include <pthread.h>

#include "guest/writer/mailbox.h"
#include "tools/writer_vm.h"
#include "vmm/dirty_ring.h"
#include "vmm/vcpu.h"

/* Where things are in the private slot, as addresses of the guest. */
struct writer_layout {
    gpa_t code;
    gpa_t mailbox; /* one page each */
    gpa_t tables;  /* PML4, then PDPTs, then page directories */
    unsigned npdpts, npds;
    gpa_t list; /* list_bytes each */
    uint64_t list_bytes;
    gpa_t end; /* of everything that is mapped */
};

struct writer_vm {
    const struct kvm *kvm;
    int vm_fd;
    unsigned nslots, ncpus, privilege;
    uint64_t max_list;
    struct writer_layout layout;
    struct memory memory;
    bool has_memory;
    struct dirty_rings *rings;
    struct bus bus; /* empty */
    struct vcpu_set vcpus;
    bool has_vcpus;
    struct dirty_log_vm log;
    struct writer_mailbox *mailbox[WRITER_VM_MAX_CPUS];
    unsigned tsc_khz;
    const bool *cancelled; /* or NULL */
    bool held;
    bool roaming;
    uint64_t job; /* number of the last one */

    pthread_mutex_t lock; /* the following */
    bool ended;
    struct error why;
};

/* Ranges of all slots, the private one last, from the configuration. */
int writer_layout_plan(struct writer_layout *layout, const struct writer_vm_config *config,
                       struct memory_region *ranges, struct error *err);

/* Code and page tables. */
void writer_layout_fill(const struct writer_layout *layout, const struct memory *memory);

/* A vCPU at the code's start, in its ring. */
int writer_vcpu_reset(const struct writer_vm *vm, unsigned cpu, struct error *err);

#endif
