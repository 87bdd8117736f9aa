/* SPDX-License-Identifier: MIT */
#include "migrate/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmm/base/clock.h"

/* A small round is cut into at least two batches a stream, but into none smaller than this. */
#define MIN_BATCH_BYTES (128ull * 1024)
/* How long a stopped stream 0 may take to finish its record. */
#define LAST_RECORD_NS CLOCK_NS_PER_SEC

static void lock(struct streams *streams)
{
    (void)pthread_mutex_lock(&streams->lock);
}

static void unlock(struct streams *streams)
{
    (void)pthread_mutex_unlock(&streams->lock);
}

/* Under the lock: waits for a change; false once the time has come (0: never). */
static bool wait_change(struct streams *streams, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_SEC),
                             .tv_nsec = (long)(until_ns % CLOCK_NS_PER_SEC)};

    if (until_ns == 0)
        return pthread_cond_wait(&streams->changed, &streams->lock) == 0;
    return pthread_cond_timedwait(&streams->changed, &streams->lock, &until) != ETIMEDOUT;
}

/* Compresses the batch where that is worth it: it then has one vector of payload. */
static void pack(struct stream *stream, struct batch *batch, struct wire_header *header)
{
    const void *packed;
    size_t bytes;

    if (!stream->packer || header->type != WIRE_PAGES || !batch->payload_bytes)
        return;
    bytes = packer_pack(stream->packer, batch->vectors + 1, batch->nvectors - 1, &packed);
    if (!bytes)
        return;
    header->codec = packer_codec(stream->packer);
    header->payload_bytes = bytes;
    header->payload_hash = wire_hash(packed, bytes);
    header->flags |= WIRE_FLAG_PAYLOAD_HASH;
    /* Sending never writes through the vector; struct iovec just has no const. */
    memcpy(&batch->vectors[1].iov_base, &packed, sizeof(packed));
    batch->vectors[1].iov_len = bytes;
    batch->nvectors = 2;
}

static int send_batch(struct stream *stream, struct batch *batch, struct wire_header *header,
                      struct error *err)
{
    struct progress *progress = stream->set->progress;
    uint64_t begin = clock_now_ns();
    int rc;

    batch_finish(batch, header);
    pack(stream, batch, header);
    rc = header->codec
             ? record_send_vectors(stream->link, header, batch->vectors, batch->nvectors, err)
             : record_send_pages(stream->link, header, batch->vectors,
                                 batch->in_files ? batch->files : NULL, batch->nvectors, err);
    progress_took(progress, &progress->view.send_ns, begin);
    batch_reset(batch);
    return rc;
}

/* Under the lock, after a send by whichever thread. */
static void account(struct stream *stream, const struct wire_header *header, int rc,
                    struct error *err)
{
    struct streams *streams = stream->set;

    stream->sent = channel_sent_bytes(stream->link->channel);
    if (header->codec)
        stream->packed_bytes += header->payload_bytes;
    if (rc && !streams->rc) {
        streams->rc = rc;
        if (streams->count > 1)
            error_prefix(err, "stream %u", stream->index);
        streams->err = *err;
    }
    (void)pthread_cond_broadcast(&streams->changed);
}

static void *stream_main(void *opaque)
{
    struct stream *stream = opaque;
    struct streams *streams = stream->set;

    lock(streams);
    for (;;) {
        struct error err = {.text = ""};
        unsigned slot = stream->head;
        int rc;

        while (!streams->stop && !streams->rc && !stream->queued)
            (void)wait_change(streams, 0);
        if (streams->stop || streams->rc)
            break;
        stream->sending = true;
        unlock(streams);
        rc = send_batch(stream, stream->batch[slot], &stream->header[slot], &err);
        lock(streams);
        stream->head = (slot + 1) % STREAM_BATCHES;
        stream->queued--;
        stream->sending = false;
        account(stream, &stream->header[slot], rc, &err);
    }
    unlock(streams);
    return NULL;
}

static int prepare(struct stream *stream, const struct streams_options *options, struct error *err)
{
    for (unsigned i = 0; i < STREAM_BATCHES; i++) {
        stream->batch[i] = malloc(sizeof(*stream->batch[i]));
        if (!stream->batch[i])
            return error_set(err, ENOMEM, "no memory for the batches of a stream");
        batch_init(stream->batch[i], options->max_batch_bytes);
    }
    if (options->codec)
        return packer_open(&stream->packer, options->codec, options->level, err);
    return channel_use_zerocopy(stream->link->channel, options->zerocopy, err);
}

int streams_open(struct streams *streams, struct record_link *first,
                 const struct streams_options *options, struct error *err)
{
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&streams->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&streams->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    streams->progress = options->progress;
    streams->max_bytes = streams->batch_bytes = options->max_batch_bytes;
    streams->count = 1;
    streams->stream[0] = (struct stream){.set = streams, .link = first};
    return prepare(&streams->stream[0], options, err);
}

int streams_add(struct streams *streams, struct channel *channel, struct record_link **link,
                const struct streams_options *options, struct error *err)
{
    struct stream *stream = &streams->stream[streams->count];

    *stream = (struct stream){.set = streams, .index = streams->count, .own_link.channel = channel};
    stream->link = &stream->own_link;
    streams->count++;
    *link = stream->link;
    return prepare(stream, options, err);
}

int streams_start(struct streams *streams, struct error *err)
{
    for (unsigned i = 0; i < streams->count; i++) {
        struct stream *stream = &streams->stream[i];
        int rc = pthread_create(&stream->thread, NULL, stream_main, stream);

        if (rc)
            return error_set(err, rc, "a thread for stream %u: %s", i, strerror(rc));
        stream->started = true;
    }
    return 0;
}

void streams_stop(struct streams *streams)
{
    uint64_t until_ns = clock_now_ns() + LAST_RECORD_NS;
    bool late = false;

    if (!streams->count)
        return;
    lock(streams);
    streams->stop = true;
    (void)pthread_cond_broadcast(&streams->changed);
    /* Whatever the others still send is of no use any more. */
    for (unsigned i = 1; i < streams->count; i++)
        channel_shut(streams->stream[i].link->channel, true);
    while (streams->stream[0].sending && !late)
        late = !wait_change(streams, until_ns);
    unlock(streams);
    if (late)
        channel_shut(streams->stream[0].link->channel, true);
    for (unsigned i = 0; i < streams->count; i++) {
        if (streams->stream[i].started)
            (void)pthread_join(streams->stream[i].thread, NULL);
        streams->stream[i].started = false;
    }
}

void streams_close(struct streams *streams)
{
    if (!streams->count)
        return;
    streams_stop(streams);
    for (unsigned i = 0; i < streams->count; i++) {
        struct stream *stream = &streams->stream[i];

        channel_close(stream->own_link.channel);
        packer_close(stream->packer);
        for (unsigned slot = 0; slot < STREAM_BATCHES; slot++)
            free(stream->batch[slot]);
    }
    (void)pthread_cond_destroy(&streams->changed);
    (void)pthread_mutex_destroy(&streams->lock);
    streams->count = 0;
}

/* ---- the engine's side */

void streams_begin_round(struct streams *streams, uint64_t pending_bytes, bool last)
{
    uint64_t share = pending_bytes / (STREAM_BATCHES * streams->count);

    if (share < MIN_BATCH_BYTES)
        share = MIN_BATCH_BYTES;
    streams->batch_bytes = share < streams->max_bytes ? share : streams->max_bytes;
    streams->at_once = last && streams->count == 1;
    for (unsigned i = 0; i < streams->count; i++)
        streams->stream[i].round_bytes = 0;
}

/* Under the lock. */
static int failed(const struct streams *streams, struct error *err)
{
    if (streams->rc && err)
        *err = streams->err;
    return streams->rc;
}

static int time_is_over(struct streams *streams, struct error *err)
{
    streams->late = true;
    return error_set(err, ETIMEDOUT, "the timeout is over");
}

static struct stream *least_loaded(struct streams *streams, bool first_only)
{
    struct stream *best = NULL;

    for (unsigned i = 0; i < (first_only ? 1 : streams->count); i++) {
        struct stream *stream = &streams->stream[i];

        if (stream->queued < STREAM_BATCHES && (!best || stream->round_bytes < best->round_bytes))
            best = stream;
    }
    return best;
}

static struct batch *batch_of(struct stream *stream)
{
    return stream->batch[(stream->head + stream->queued) % STREAM_BATCHES];
}

int streams_batch(struct streams *streams, bool first_only, struct batch **out, struct error *err)
{
    bool in_time = !streams->until_ns || clock_now_ns() < streams->until_ns;
    int rc;

    lock(streams);
    streams->filling = NULL;
    while (in_time && !streams->rc && !(streams->filling = least_loaded(streams, first_only)))
        in_time = wait_change(streams, streams->until_ns);
    rc = failed(streams, err);
    if (!rc && streams->filling) {
        *out = batch_of(streams->filling);
        (*out)->max_bytes = streams->batch_bytes;
    }
    unlock(streams);
    return !rc && !streams->filling ? time_is_over(streams, err) : rc;
}

int streams_submit(struct streams *streams, uint16_t type, uint32_t round, struct error *err)
{
    struct stream *stream = streams->filling;
    struct wire_header header = {.type = type, .round = round};
    struct error send_error = {.text = ""};
    int rc = 0;

    streams->filling = NULL;
    if (streams->at_once)
        rc = send_batch(stream, stream->batch[stream->head], &header, &send_error);
    lock(streams);
    if (streams->at_once) {
        account(stream, &header, rc, &send_error);
    } else {
        stream->header[(stream->head + stream->queued) % STREAM_BATCHES] = header;
        stream->round_bytes += batch_of(stream)->payload_bytes + 1; /* none is for free */
        stream->queued++;
        (void)pthread_cond_broadcast(&streams->changed);
    }
    rc = failed(streams, err);
    unlock(streams);
    return rc;
}

int streams_drain(struct streams *streams, struct error *err)
{
    bool in_time = true;
    int rc;

    lock(streams);
    for (unsigned i = 0; i < streams->count; i++) {
        while (in_time && !streams->rc && streams->stream[i].queued)
            in_time = wait_change(streams, streams->until_ns);
    }
    rc = failed(streams, err);
    unlock(streams);
    if (!rc && !in_time)
        return time_is_over(streams, err);
    for (unsigned i = 0; !rc && i < streams->count; i++)
        rc = channel_settle(streams->stream[i].link->channel, err);
    return rc;
}

int streams_sync(struct streams *streams, uint32_t round, bool last, struct error *err)
{
    int rc = streams_drain(streams, err);

    for (unsigned i = 0; !rc && i < streams->count; i++) {
        struct stream *stream = &streams->stream[i];
        struct wire_header sync = {
            .type = WIRE_SYNC, .round = round, .flags = last ? WIRE_FLAG_LAST : 0};

        rc = record_send(stream->link, &sync, NULL, 0, NULL, 0, err);
        stream->sent = channel_sent_bytes(stream->link->channel);
    }
    return rc;
}

static uint64_t unacknowledged(const struct streams *streams)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < streams->count; i++)
        bytes += channel_unacknowledged(streams->stream[i].link->channel);
    return bytes;
}

int streams_wait_answer(struct streams *streams, uint64_t deadline_ns, struct error *err)
{
    uint64_t held = unacknowledged(streams);

    for (;;) {
        uint64_t now_held;
        int rc = channel_wait_readable(streams->stream[0].link->channel, deadline_ns, err);

        if (rc)
            return rc < 0 ? rc : 0;
        now_held = unacknowledged(streams);
        if (now_held >= held)
            return error_set(err, ETIMEDOUT, "the peer has been silent for %.1f s",
                             (double)deadline_ns / 1e9);
        held = now_held;
    }
}

uint64_t streams_sent_bytes(struct streams *streams)
{
    uint64_t bytes = 0;

    lock(streams);
    for (unsigned i = 0; i < streams->count; i++)
        bytes += streams->stream[i].sent;
    unlock(streams);
    return bytes;
}

_Static_assert(PROGRESS_MAX_STREAMS >= WIRE_MAX_STREAMS, "every stream is accounted for");

void streams_account(const struct streams *streams, struct progress_view *view)
{
    view->streams = streams->count;
    view->sent_bytes = view->packed_bytes = view->zerocopy_bytes = 0;
    view->zerocopy = channel_zerocopy_state(streams->stream[0].link->channel);
    for (unsigned i = 0; i < streams->count; i++) {
        const struct stream *stream = &streams->stream[i];

        view->stream_bytes[i] = channel_sent_bytes(stream->link->channel);
        view->sent_bytes += view->stream_bytes[i];
        view->packed_bytes += stream->packed_bytes;
        view->zerocopy_bytes += channel_zerocopy_bytes(stream->link->channel);
    }
}
