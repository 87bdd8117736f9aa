/* SPDX-License-Identifier: MIT
 *
 * A lane of bench dirty-log: its VM, its log, and what is done with them. */
#ifndef TOOLS_BENCH_DIRTY_LANE_H
#define TOOLS_BENCH_DIRTY_LANE_H

#include "tools/bench_dirty.h"

/* Makes the VM, places its threads, and has the guest store to every page once. */
int bench_dirty_lane_open(struct bench_dirty *bench, struct bench_dirty_lane *lane,
                          struct error *err);
void bench_dirty_lane_close(struct bench_dirty_lane *lane);

/* What the vCPUs store to next: `count` pages of each slot, every vCPU its part of the list. NULL:
 * the first `count`. */
int bench_dirty_lane_list(struct bench_dirty *bench, struct bench_dirty_lane *lane,
                          const uint64_t *pages, uint64_t count, struct error *err);

/* Has the stores made; *ns gets the guest's time. */
int bench_dirty_lane_store(struct bench_dirty *bench, struct bench_dirty_lane *lane, uint64_t *ns,
                           struct error *err);

/* Switches logging on and off; the times are samples. */
int bench_dirty_lane_log(struct bench_dirty_lane *lane, struct error *err);
void bench_dirty_lane_unlog(struct bench_dirty_lane *lane);

/* Adds `sign` times KVM's counters of the VM. */
void bench_dirty_lane_stats(struct bench_dirty_lane *lane, unsigned ncpus, int sign);

/* One pass over the log; what it found is in lane->words. */
int bench_dirty_pass(struct bench_dirty_lane *lane, unsigned nslots, struct bench_pass *pass,
                     struct error *err);

#endif
