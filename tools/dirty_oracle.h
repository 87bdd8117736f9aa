/* SPDX-License-Identifier: MIT
 *
 * Does a dirty-log backend of this host lose pages? The contents tell: while vCPUs and a device
 * store numbers that never repeat, pages are looked at as a migration would read them, each right
 * after it was claimed.
 *
 *   - A page that differs from the last look, and was not reported, was stored to after the last
 *     fetch: the next round must report it.
 *   - While nobody stores, what changed before the fetch must be in it.
 *   - When all have stopped and the last round is through, the copy of each page, as it was when it
 *     was last reported, equals the page.
 *
 * Every vCPU leaves the guest before a fetch, and goes on beside it: only then has KVM logged all
 * that it stored before (api.rst 8.29; Intel's PML holds pages back until then). A migration is no
 * stricter, since it pauses the vCPUs before its last fetch.
 *
 * A log may report more than was stored. The judge (dirty_oracle_judge.h) takes nothing from the
 * kernel on trust, and never asserts: what was lost is an answer. */
#ifndef TOOLS_DIRTY_ORACLE_H
#define TOOLS_DIRTY_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/dirty_log.h"
#include "vmm/kvm.h"
#include "vmm/memory.h"

struct dirty_oracle_case {
    struct dirty_log_options log;
    enum memory_backing backing;
    unsigned privilege; /* 3 or 0: the ring of the guest that stores */
    unsigned ncpus;     /* 1…WRITER_VM_MAX_CPUS */
    const uint64_t *npages;
    unsigned nslots;
    uint32_t ring_entries; /* with the ring; 0 = DIRTY_RING_DEFAULT_ENTRIES */

    /* Logging goes on while all store, and off while all store, this many times… */
    unsigned campaigns;
    /* …with this many rounds each, between which every vCPU stores at least so often… */
    unsigned rounds;
    uint64_t stores;
    /* …then, with the device quiet, this many sweeps in which each vCPU stores to every page. */
    unsigned sweeps;

    const bool *cancelled; /* atomic, NULL: never */
};

enum dirty_oracle_result {
    DIRTY_ORACLE_OK,
    DIRTY_ORACLE_BROKEN,
    DIRTY_ORACLE_ABSENT, /* this host does not have the backend */
};

struct dirty_oracle_verdict {
    enum dirty_oracle_result result;
    uint64_t lost_pages; /* 0 where a failure came before any loss was seen */
    unsigned slot;       /* the first lost page: where, and in which round, counted over all… */
    uint64_t page;       /* …campaigns and sweeps from 1 */
    unsigned round;
    uint64_t reports; /* pages reported, all rounds */
    uint64_t stores;  /* by all vCPUs */
    uint64_t full_exits;
    char why[ERROR_TEXT_BYTES]; /* one line; empty where OK */
};

/* 0 with a verdict, or -errno where the case could not be tried (no memory, say) or was cancelled
 * (-ECANCELED). Takes over SIGUSR1 (vmm/vcpu.h). */
int dirty_oracle_run(const struct kvm *kvm, const struct dirty_oracle_case *test,
                     struct dirty_oracle_verdict *verdict, struct error *err);

#endif
