/* SPDX-License-Identifier: MIT
 *
 * The source's streams: the engine fills batches, a thread per stream compresses and sends them, so
 * that the next chunk is claimed while the last one is on its way. Internal to the source's engine.
 *
 * Only the engine's thread calls these. Between streams_drain() and the next streams_submit() no
 * stream is in use by its thread: then, and only then, the engine may use stream 0's link itself.
 */
#ifndef MIGRATE_STREAMS_H
#define MIGRATE_STREAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/batch.h"
#include "migrate/packer.h"
#include "migrate/progress.h"
#include "migrate/record.h"

/* One is filled while the other is sent. */
#define STREAM_BATCHES 2

struct streams;

struct stream {
    struct streams *set;
    unsigned index;
    struct record_link *link;
    struct record_link own_link; /* of all but the first */
    struct packer *packer;       /* NULL: pages are sent as they are */
    pthread_t thread;
    bool started;
    bool sending; /* its thread is within a record */
    struct batch *batch[STREAM_BATCHES];
    struct wire_header header[STREAM_BATCHES];
    unsigned head;         /* the batch to be sent next */
    unsigned queued;       /* filled and not sent */
    uint64_t round_bytes;  /* given to it in this round */
    uint64_t sent;         /* published copies of its channel's numbers */
    uint64_t packed_bytes; /* of `sent`: compressed payload */
};

struct streams {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct progress *progress;
    unsigned count;
    struct stream stream[WIRE_MAX_STREAMS];
    struct stream *filling; /* begun, not submitted */
    uint64_t max_bytes;     /* of a batch, whatever the round */
    uint64_t batch_bytes;   /* of a batch in this round */
    uint64_t until_ns;      /* waiting ends here with -ETIMEDOUT; 0: never */
    bool late;              /* it did: nobody else was silent */
    bool at_once;           /* one stream, nothing to overlap: the engine's thread sends itself */
    bool stop;
    int rc; /* of the first stream that failed */
    struct error err;
};

struct streams_options {
    enum wire_codec codec;
    int level;
    enum channel_zerocopy zerocopy;
    uint64_t max_batch_bytes;
    struct progress *progress; /* borrowed */
};

/* `first` is borrowed. streams_close() also after a failure. */
int streams_open(struct streams *streams, struct record_link *first,
                 const struct streams_options *options, struct error *err);

/* One more stream, whose HELLO is done; takes the channel over, on failure too. */
int streams_add(struct streams *streams, struct channel *channel, struct record_link **link,
                const struct streams_options *options, struct error *err);

/* Starts the threads: from here on batches can be submitted. */
int streams_start(struct streams *streams, struct error *err);

/* Stops and joins the threads; what was submitted and not sent is given up. Stream 0 finishes its
 * record if that takes no time, so that the engine can tell the peer why. */
void streams_stop(struct streams *streams);

/* Stops, closes all channels but the first, frees. */
void streams_close(struct streams *streams);

/* A round of about this many bytes begins: it is cut so that every stream gets its share. */
void streams_begin_round(struct streams *streams, uint64_t pending_bytes, bool last);

/* An empty batch, of the stream that got the least so far; waits for it. `first_only`: stream 0's.
 */
int streams_batch(struct streams *streams, bool first_only, struct batch **out, struct error *err);

/* Hands the batch that streams_batch() gave to its stream. */
int streams_submit(struct streams *streams, uint16_t type, uint32_t round, struct error *err);

/* Waits until everything submitted was sent and no page is read by the kernel any more. */
int streams_drain(struct streams *streams, struct error *err);

/* Drains and closes the round on every stream. */
int streams_sync(struct streams *streams, uint32_t round, bool last, struct error *err);

/* Waits for stream 0 to be readable. As long as the kernel gets bytes acknowledged on any stream
 * the peer is alive, however thin the link: the deadline counts from the last one. Drained. */
int streams_wait_answer(struct streams *streams, uint64_t deadline_ns, struct error *err);

/* Bytes sent over all streams so far. */
uint64_t streams_sent_bytes(struct streams *streams);

/* What each of them did; drained or stopped. */
void streams_account(const struct streams *streams, struct progress_view *view);

#endif
