/* SPDX-License-Identifier: MIT
 *
 * Watches a guest from outside: maps the RAM of both VMMs and reads the counters that the guest
 * keeps on its statistics page (guest/abi.h). */
#ifndef TOOLS_BENCH_OBSERVER_H
#define TOOLS_BENCH_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/abi.h"

/* One VMM's side of the guest. */
struct bench_view {
    const struct guest_stats *stats; /* NULL: not found yet */
    uint64_t beats, work;            /* as last read */
    uint64_t changed_ns;             /* when the beats last changed */
};

struct bench_observer {
    struct bench_view source, target;
    uint64_t last_at_source_ns;  /* the last beat there */
    uint64_t first_at_target_ns; /* 0: not yet */
};

/* Maps the low RAM of process `pid`: the first descriptor of shared memory named as guest RAM is.
 * False where there is none (yet). */
bool bench_view_open(struct bench_view *view, pid_t pid);
void bench_view_close(struct bench_view *view);
/* Bytes of all guest RAM of the process that are there. */
uint64_t bench_view_ram(pid_t pid);
/* Whether the workload has begun. */
bool bench_view_ready(const struct bench_view *view);

/* Reads what is mapped, at time `now`. The target counts once it is beyond the source. */
void bench_observer_look(struct bench_observer *observer, uint64_t now_ns);
/* Units of work done so far, wherever. */
uint64_t bench_observer_work(const struct bench_observer *observer);
/* From the last beat at the source to the first at the destination; 0 where none was seen. */
uint64_t bench_observer_blackout(const struct bench_observer *observer);

#endif
