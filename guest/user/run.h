/* SPDX-License-Identifier: MIT
 *
 * A run of a workload: one worker per CPU, the same phases for all. A workload brings functions for
 * the phases that it has; this file brings the loop around them, pacing, the clock check, the
 * statistics page and the finish. */
#ifndef GUEST_USER_RUN_H
#define GUEST_USER_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/abi.h"
#include "guest/user/page_set.h"
#include "guest/user/params.h"

struct run;
struct worker;

struct workload {
    const char *name;
    const char *about;
    const struct param *params;
    /* CPU 0 alone, first. */
    void (*prepare)(struct run *run);
    /* Every CPU; the next begins when all are through. "ready" is printed between fill and work.
     * Each may be NULL. work returns when worker_next() says so. */
    void (*fill)(struct run *run, struct worker *worker);
    void (*work)(struct run *run, struct worker *worker);
    void (*verify)(struct run *run, struct worker *worker);
    /* CPU 0 alone, last: prints one line. The guest then ends with GUEST_EXIT_OK. */
    void (*summary)(struct run *run);
    bool takes_input; /* console input is the workload's: GUEST_FINISH_BYTE is not looked for */
};

/* How a worker passes the time until its pace lets it go on. */
enum run_wait { RUN_WAIT_HALT, RUN_WAIT_SPIN };

struct worker {
    unsigned cpu;
    struct guest_cpu_stats *stats;
    uint64_t now_ns, tsc;
    uint64_t random;
    /* Pace: units a second, and the moment up to which they are handed out. */
    bool paced;
    uint64_t rate;
    uint64_t pace_ns, pace_part;
    enum run_wait wait;
    uint64_t poll_ns; /* CPU 0: next look at the console without an interrupt */
};

struct run {
    const struct workload *workload;
    struct params params;
    unsigned ncpus;
    struct page_set set; /* the workload's pages; empty where it has none */
    void *state;         /* the workload's own */
    uint64_t end_ns;     /* CPU 0's clock; 0: none */
    uint32_t stop;       /* set: every worker ends its work */
    uint32_t phase;      /* phases that all workers are through with */
    uint32_t arrived;    /* workers through with the one after */
    struct worker worker[GUEST_MAX_CPUS];
};

/* Units that a worker may do now, at least 1 and at most RUN_SLICE; 0: the work is over. Waits by
 * the worker's pace. Publishes `done` units done since the last call. */
#define RUN_SLICE 32
unsigned worker_next(struct worker *worker, struct run *run, uint64_t done);

/* Notes the time, publishes `done` units, and ends the guest with GUEST_EXIT_CLOCK where the clock
 * went back. What long loops of fill and verify call. */
void worker_beat(struct worker *worker, uint64_t done);

/* Sets this worker's share of `rate` units a second, 0 = flat out. RUN_WAIT_HALT starts the CPU's
 * timer, with a tick of a millisecond. */
#define RUN_MAX_RATE 1000000000u
void worker_set_rate(struct worker *worker, const struct run *run, uint64_t rate,
                     enum run_wait wait);

/* This CPU's timer; a timer that cannot is GUEST_EXIT_NO_DEVICE. */
void worker_start_timer(struct worker *worker, uint64_t hz, unsigned timer);

/* xorshift64*, different on every CPU for the same seed; and a number below n. */
void worker_seed(struct worker *worker, uint64_t seed);
uint64_t worker_random(struct worker *worker);
uint64_t worker_random_below(struct worker *worker, uint64_t n);

/* This worker's share [*first, *end) of n items. */
void worker_share(const struct worker *worker, const struct run *run, uint64_t n, uint64_t *first,
                  uint64_t *end);

/* Sums and maxima over all CPUs, for summaries. */
struct guest_cpu_stats run_total(const struct run *run);

/* Counts a mismatch; the caller prints what it is. Ends the guest with `code`. */
void worker_fault(struct worker *worker, uint32_t code) __attribute__((noreturn));

#endif
