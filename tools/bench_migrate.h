/* SPDX-License-Identifier: MIT
 *
 * pageferry bench migrate: whole migrations between two processes, beside a raw copy of the same
 * size in the same run. */
#ifndef TOOLS_BENCH_MIGRATE_H
#define TOOLS_BENCH_MIGRATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/options.h"
#include "vmm/base/error.h"
#include "vmm/memory.h"

struct bench_migrate_config {
    uint64_t memory_bytes;
    enum memory_backing backing;
    unsigned repeat;
    bool json;
    bool engine;            /* no guest, only its RAM */
    uint64_t touched_bytes; /* of that */
    uint64_t dirty_rate;    /* its pages that are stored to meanwhile, a second; 0: none */
    uint64_t dirty_bytes;   /* the first of them, which those are */
    bool dirty_random;      /* not in turn */
    bool once;              /* one migration, and nothing beside it */
    uint64_t streams, max_bandwidth, downtime_limit_ns;
    /* What follows is the guest's; words are passed on to `run` and `migrate` as they are. */
    const char *workload;
    unsigned ncpus;
    const char *dirty_log; /* NULL: not given */
};

/* What is measured of one migration; times in ns, sizes in bytes. */
enum bench_migrate_metric {
    BENCH_MIGRATE_RATE,      /* bytes/s: all that was sent over the whole time */
    BENCH_MIGRATE_RAW,       /* bytes/s of the raw copy into 4 KiB pages */
    BENCH_MIGRATE_RAW_HUGE,  /* … into huge pages */
    BENCH_MIGRATE_OVER_RAW,  /* parts per million */
    BENCH_MIGRATE_OVER_HUGE, /* parts per million */
    BENCH_MIGRATE_TOTAL,
    BENCH_MIGRATE_DOWNTIME,
    BENCH_MIGRATE_PHASE_SETUP, /* phases as the source tells them */
    BENCH_MIGRATE_PHASE_ROUNDS,
    BENCH_MIGRATE_PHASE_PAUSE,
    BENCH_MIGRATE_PHASE_FINAL,
    BENCH_MIGRATE_PHASE_STATE,
    BENCH_MIGRATE_PHASE_READY,
    BENCH_MIGRATE_PHASE_COMMIT,
    BENCH_MIGRATE_PHASE_RESUME,
    BENCH_MIGRATE_BLACKOUT,  /* as an observer of both guests' RAM sees it; of the
                                engine: from the pause to the destination's run */
    BENCH_MIGRATE_BROWNOUT,  /* guest work lost, as time at the undisturbed rate */
    BENCH_MIGRATE_WORK_LOST, /* the same as units of work */
    BENCH_MIGRATE_ROUNDS,
    BENCH_MIGRATE_SENT,
    BENCH_MIGRATE_SOURCE_MEMORY, /* peak, beyond guest RAM */
    BENCH_MIGRATE_TARGET_MEMORY,
    BENCH_MIGRATE_TARGET_RAM, /* guest RAM that is there at the end */
    BENCH_MIGRATE_SOURCE_CPU,
    BENCH_MIGRATE_TARGET_CPU,
    BENCH_MIGRATE_NMETRICS,
};

struct bench_migrate_row {
    uint64_t value[BENCH_MIGRATE_NMETRICS];
    bool has[BENCH_MIGRATE_NMETRICS];
};

static inline void bench_migrate_put(struct bench_migrate_row *row,
                                     enum bench_migrate_metric metric, uint64_t value)
{
    row->value[metric] = value;
    row->has[metric] = true;
}

/* The command line. Bad ones are reported. */
enum options_result bench_migrate_options(int argc, char **argv,
                                          struct bench_migrate_config *config);

/* One migration, each with processes of its own, which have ended on return. -EINTR where the user
 * wants no more. */
int bench_migrate_engine(const struct bench_migrate_config *config, struct bench_migrate_row *row,
                         struct error *err);
int bench_migrate_guest(const struct bench_migrate_config *config, struct bench_migrate_row *row,
                        struct error *err);

#endif
