/* SPDX-License-Identifier: MIT
 *
 * The source's engine: pre-copy rounds, pause, last round, handover. */
#ifndef MIGRATE_PRECOPY_H
#define MIGRATE_PRECOPY_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/channel.h"
#include "migrate/converge.h"
#include "migrate/endpoint.h"
#include "migrate/handover.h"
#include "migrate/links.h"
#include "migrate/progress.h"
#include "migrate/record.h"
#include "vmm/base/error.h"

#define PRECOPY_DOWNTIME_LIMIT_NS (50ull * 1000 * 1000)
/* Below this a page takes so long that the link looks dead. */
#define PRECOPY_MIN_BANDWIDTH   (64u * 1024)
#define PRECOPY_CHUNK_PAGES     16384u
#define PRECOPY_MAX_CHUNK_PAGES (1u << 20)

#define PRECOPY_ZSTD_LEVEL     1 /* the default: links are thin, and CPUs are shared */
#define PRECOPY_ZSTD_MAX_LEVEL 19

/* What is left of a migration whose end is not known. */
struct precopy_doubt {
    uint8_t session[WIRE_SESSION_BYTES];
    enum handover_source owner; /* HANDOVER_COMMITTED */
    uint32_t round;
    bool was_running; /* how the guest goes on where it turns out to be ours */
    /* RUNNING may still come over it; its channel is the one that was used. */
    struct record_link link;
};

struct precopy_options {
    uint64_t downtime_limit_ns;
    uint64_t timeout_ns; /* from the first round on; 0 = none */
    enum converge_on_timeout on_timeout;
    unsigned throttle;      /* percent, or CONVERGE_THROTTLE_AUTO */
    uint64_t max_bandwidth; /* bytes/s over the link, 0 = unlimited, else at least
                               PRECOPY_MIN_BANDWIDTH */
    uint32_t chunk_pages;   /* claim granularity, a multiple of 64 */
    unsigned streams;       /* 1 to WIRE_MAX_STREAMS */
    enum wire_codec compress;
    int compress_level;             /* zstd */
    enum channel_zerocopy zerocopy; /* OFF, ON or AUTO; pages that are compressed are never sent so
                                     */
    bool check_only;                /* stop after the destination accepted the machine */
    struct precopy_doubt *doubt;    /* filled in for IN_DOUBT; NULL: not wanted */
};

enum precopy_outcome {
    PRECOPY_COMPLETED, /* the guest runs at the destination */
    PRECOPY_ACCEPTED,  /* check_only: the destination would take the guest */
    PRECOPY_FAILED,    /* nothing changed hands: the guest is as before, here */
    PRECOPY_CANCELLED, /* as FAILED, because somebody asked for it */
    PRECOPY_IN_DOUBT,  /* COMMIT was submitted, RUNNING never came: the guest stays paused here */
};

/* Runs a whole migration in the calling thread, with a thread per stream beside it.
 * err gets one line with the phase for FAILED and IN_DOUBT. The progress is current at every
 * moment. */
enum precopy_outcome precopy_run(const struct migrate_source *source,
                                 const struct migrate_links *links,
                                 const struct precopy_options *options, struct progress *progress,
                                 struct error *err);

#endif
