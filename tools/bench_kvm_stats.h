/* SPDX-License-Identifier: MIT
 *
 * KVM's own counters of a VM and its vCPUs (KVM_GET_STATS_FD, api.rst 4.133), those that have to do
 * with its page tables: splits, flushes, faults. Files of statistics are found by name, so that
 * every KVM's own are there. */
#ifndef TOOLS_BENCH_KVM_STATS_H
#define TOOLS_BENCH_KVM_STATS_H

#include <stdint.h>

#include <jansson.h>

#define BENCH_KVM_STATS_MAX   64
#define BENCH_KVM_STATS_BYTES 64

struct bench_kvm_stats {
    unsigned count;
    struct {
        char name[BENCH_KVM_STATS_BYTES];
        int64_t value;
    } stat[BENCH_KVM_STATS_MAX];
};

/* Adds `sign` times each counter of a VM or a vCPU; fd is theirs. Nothing is added where the host
 * has no counters. */
void bench_kvm_stats_add(struct bench_kvm_stats *stats, int fd, int sign);

/* An object of those that are not 0; NULL without memory. */
json_t *bench_kvm_stats_json(const struct bench_kvm_stats *stats);

#endif
