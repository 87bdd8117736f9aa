/* SPDX-License-Identifier: MIT
 *
 * The destination's streams: each read by a thread of its own (the first by the engine's), all into
 * the same guest RAM, and none beyond a round before all have ended it. Internal to the
 * destination's engine. */
#ifndef MIGRATE_RECEIVE_STREAMS_H
#define MIGRATE_RECEIVE_STREAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/links.h"
#include "migrate/populate.h"
#include "migrate/progress.h"
#include "migrate/receive_pages.h"
#include "migrate/record.h"

struct receive_streams;

struct receive_stream {
    struct receive_streams *set;
    unsigned index;
    struct record_link *link;
    struct record_link own_link; /* of all but the first */
    struct record record;
    struct receive_scratch scratch;
    pthread_t thread;
    bool started;
};

struct receive_streams {
    struct receive_pages *pages;
    struct populate *populate;
    struct progress *progress;
    unsigned count;
    struct receive_stream *stream[WIRE_MAX_STREAMS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: */
    uint32_t round;   /* the one that is being received */
    unsigned arrived; /* streams that have ended it */
    bool last;        /* what the first of them said: no other follows */
    bool done;        /* all have ended the last round */
    int rc;           /* of the first stream that failed */
    int lost_rc;      /* a connection other than the first broke: stream 0 may say why */
    struct error err, lost_err;
    uint64_t received; /* bytes, all streams but the first */
};

/* Stream 0 is `first`. receive_streams_close() also after a failure. */
int receive_streams_open(struct receive_streams *streams, struct record_link *first,
                         struct progress *progress, struct error *err);

/* Waits for the other streams of the session, as many as its HELLO says; strangers are turned away.
 */
int receive_streams_join(struct receive_streams *streams, const struct migrate_links *links,
                         const struct wire_hello *session, struct error *err);

/* Receives all rounds into guest RAM; the engine's thread reads stream 0. Returns once the last
 * round is complete on every stream, or one has failed. */
int receive_streams_copy(struct receive_streams *streams, struct receive_pages *pages,
                         struct populate *populate, struct error *err);

/* Ends the threads and closes all channels but the first. */
void receive_streams_close(struct receive_streams *streams);

#endif
