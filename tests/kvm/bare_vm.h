/* SPDX-License-Identifier: MIT
 *
 * A VM of a few memory regions and one vCPU that runs dirty_writer.S, for tests that need stores by
 * a real guest but no machine. Region 0 holds code, page table and control block; the writer stores
 * into the pages of all other regions. */
#ifndef TESTS_KVM_BARE_VM_H
#define TESTS_KVM_BARE_VM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/kvm.h"
#include "vmm/memory.h"

#define BARE_VM_MAX_PAGES 8192

struct bare_vm {
    struct kvm kvm;
    int vm_fd;
    int vcpu_fd;
    struct kvm_run *run;
    struct memory memory;
    uint32_t npages; /* pages that the writer chooses from */
    uint32_t sequence;
    pthread_t thread;
    bool running; /* a thread is there */
    bool stop;    /* atomic: the thread shall end */
    bool ended;   /* atomic: it has ended, wanted or not */
};

/* Exits with 77 and a reason where this host has no usable KVM; call first in main(). */
void bare_vm_require_kvm(void);

/* Data regions of the given page counts, far apart. Fails the test on error. */
void bare_vm_create(struct bare_vm *vm, const uint64_t *npages, unsigned nregions,
                    enum memory_backing backing);
void bare_vm_destroy(struct bare_vm *vm);

/* The table's index that the writer's next store will choose; advances like the writer does. */
uint32_t bare_vm_predict(struct bare_vm *vm);
/* Region and page of a table index. */
void bare_vm_locate(const struct bare_vm *vm, uint32_t index, unsigned *region, uint64_t *page);

/* Makes exactly `stores` stores and returns when the guest has halted. */
void bare_vm_store(struct bare_vm *vm, uint32_t stores);

/* Stores without end in a thread of its own. */
void bare_vm_start(struct bare_vm *vm);
void bare_vm_stop(struct bare_vm *vm);

/* Number of the last store, readable while it runs. */
uint32_t bare_vm_heartbeat(const struct bare_vm *vm);
/* Waits for `stores` more of them; fails the test where the vCPU died instead. */
void bare_vm_await(const struct bare_vm *vm, uint32_t stores);

#endif
