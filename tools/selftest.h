/* SPDX-License-Identifier: MIT
 *
 * Which dirty-log backends can be trusted on this host: the oracle's verdict on a table of cases,
 * in full for people, and in a few milliseconds for a migration that is about to begin. */
#ifndef TOOLS_SELFTEST_H
#define TOOLS_SELFTEST_H

#include "tools/dirty_oracle.h"
#include "vmm/base/error.h"
#include "vmm/dirty_log.h"
#include "vmm/kvm.h"

/* What a case stores to. */
enum selftest_kind {
    SELFTEST_SMALL,   /* slots of 1, 63, 64 and 65 pages, each in a VM of its own */
    SELFTEST_LARGE,   /* one of 4096 + 37 pages */
    SELFTEST_SEVERAL, /* five slots with tails in one VM */
    SELFTEST_FULL,    /* sweeps over more pages than a small ring holds */
};

#define SELFTEST_NKINDS 4

const char *selftest_kind_name(enum selftest_kind kind); /* one word, for JSON */
const char *selftest_kind_text(enum selftest_kind kind); /* for people */

/* One case on one backend: 0 with a verdict, which is OK only where every VM of the case was, or
 * -errno where it could not be tried. Well below a second on hardware, as below: takes over
 * SIGUSR1. */
int selftest_case(const struct kvm *kvm, enum dirty_log_backend backend, enum selftest_kind kind,
                  unsigned privilege, unsigned ncpus, struct dirty_oracle_verdict *verdict,
                  struct error *err);

/* The short form, in VMs of its own: one vCPU in ring 3; two slots; logging switched on while it
 * stores; with the ring, one that runs full (of ring_entries, or a smaller one where that would
 * take long). Some 20 ms where a write fault takes 30 us. Any thread, but not two at once. Returns
 * as selftest_case(): -errno is no verdict, and no reason to distrust the backend; -ECANCELED soon
 * after *cancelled (atomic, may be NULL) was set. */
int selftest_quick(const struct kvm *kvm, enum dirty_log_backend backend, uint32_t ring_entries,
                   const bool *cancelled, struct dirty_oracle_verdict *verdict, struct error *err);

/* One line where a KVM flavour (host_facts' HOST_KVM) is known to break a backend in a way that the
 * short form does not show, else NULL. */
const char *selftest_known_broken(const char *flavour, enum dirty_log_backend backend);

#endif
