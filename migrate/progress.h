/* SPDX-License-Identifier: MIT
 *
 * What a migration has done so far, written by its engine, read by anyone. */
#ifndef MIGRATE_PROGRESS_H
#define MIGRATE_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/channel.h"
#include "migrate/histogram.h"

#define PROGRESS_MAX_ROUNDS  64
#define PROGRESS_MAX_STREAMS 16

/* In the order in which a migration goes through them. */
enum progress_phase {
    PROGRESS_CONNECT, /* no byte exchanged yet */
    PROGRESS_HELLO,   /* versions, session */
    PROGRESS_MACHINE, /* the destination builds or refuses the machine */
    PROGRESS_JOIN,    /* the other streams, the dirty log, what is populated */
    PROGRESS_ROUNDS,  /* pre-copy, the guest runs */
    PROGRESS_PAUSE,   /* stopping the guest */
    PROGRESS_FINAL,   /* last pages */
    PROGRESS_STATE,   /* vCPU and device state */
    PROGRESS_READY,   /* waiting for the destination's READY */
    PROGRESS_COMMIT,  /* COMMIT submitted: this side never resumes by itself */
    PROGRESS_DONE,
};

struct progress_round {
    uint64_t dirty_pages; /* pages claimed: data and zero */
    uint64_t zero_pages;
    uint64_t sent_bytes; /* everything that went over the link in this round */
    uint64_t ns;
};

/* A consistent copy of the counters; times are CLOCK_MONOTONIC nanoseconds. */
struct progress_view {
    enum progress_phase phase;
    uint64_t phase_since_ns;
    uint64_t phase_ns[PROGRESS_DONE + 1]; /* spent in each that is over */
    uint64_t total_bytes;                 /* guest RAM */
    uint64_t sent_bytes;                  /* over the link, all records */
    uint64_t remaining_bytes; /* of the round that is under way, then what the last sync found */
    uint64_t nrounds;         /* rounds begun; 0 before the first */
    uint64_t bandwidth;       /* bytes/s, recent */
    uint64_t dirty_rate;      /* pages/s, last round */
    uint64_t predicted_downtime_ns;
    unsigned throttle; /* percent of time that is taken from vCPUs now */
    uint64_t started_ns;
    uint64_t rounds_started_ns; /* 0 until setup is over */
    uint64_t paused_ns;         /* 0 until the pause */
    uint64_t running_ns;        /* the destination's RUNNING (or the resume) seen; 0 until then */
    uint64_t ended_ns;          /* 0 while under way */
    uint64_t resumed_at_ns;     /* by the destination's clock: comparable on one host only */
    uint64_t data_pages;
    uint64_t zero_pages;
    unsigned streams;
    uint64_t stream_bytes[PROGRESS_MAX_STREAMS]; /* of sent_bytes; once the migration has ended */
    uint64_t packed_bytes;                       /* of sent_bytes: compressed payload */
    uint64_t zerocopy_bytes;                     /* sent from the pages themselves, or so asked */
    enum channel_zerocopy zerocopy;              /* what was asked for, or became of it */
    /* Of the source's calls and sends: fetching the log; claiming a chunk, which re-protects and
     * classifies it; sending a batch. */
    struct histogram sync_ns, claim_ns, send_ns;
    /* The last PROGRESS_MAX_ROUNDS rounds: round r is at r % PROGRESS_MAX_ROUNDS. */
    struct progress_round rounds[PROGRESS_MAX_ROUNDS];
};

struct progress {
    pthread_mutex_t lock;
    int notify_fd; /* an eventfd that tells of each new phase and round, or -1 */
    struct progress_view view;
};

/* notify_fd becomes -1; whoever wants to be told sets it before the migration begins. */
void progress_init(struct progress *progress);
/* A round has begun. */
void progress_notify(struct progress *progress);
void progress_destroy(struct progress *progress);
/* Copies the counters. Any thread. */
void progress_get(struct progress *progress, struct progress_view *view);
/* Engine side: brackets a change of progress->view. */
struct progress_view *progress_begin(struct progress *progress);
void progress_end(struct progress *progress);
void progress_set_phase(struct progress *progress, enum progress_phase phase);
/* The time from begin_ns to now, into one of the view's histograms. */
void progress_took(struct progress *progress, struct histogram *histogram, uint64_t begin_ns);
/* "before hello", "in round 3", "after the state was sent" …: for messages. */
const char *progress_phase_name(enum progress_phase phase);

#endif
