/* SPDX-License-Identifier: MIT */
#include "migrate/receive_streams.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/clock.h"
#include "vmm/base/log.h"

static void lock(struct receive_streams *streams)
{
    (void)pthread_mutex_lock(&streams->lock);
}

static void unlock(struct receive_streams *streams)
{
    (void)pthread_mutex_unlock(&streams->lock);
}

/* ---- one stream's records */

static int take_extents(struct receive_stream *stream, struct error *err)
{
    struct populate *populate = stream->set->populate;

    if (stream->index != 0)
        return error_set(err, EPROTO, "EXTENTS on another stream than the first");
    if (populate_has_begun(populate))
        return error_set(err, EPROTO, "EXTENTS after the first PAGES");
    return populate_add(populate, &stream->record, err);
}

static void show_progress(struct receive_stream *stream, uint64_t data_pages, uint64_t zero_pages,
                          uint64_t bytes)
{
    struct progress_view *view = progress_begin(stream->set->progress);

    view->data_pages += data_pages;
    view->zero_pages += zero_pages;
    view->sent_bytes += bytes;
    progress_end(stream->set->progress);
}

/* This stream has ended the round; waits for the others. */
static int meet(struct receive_stream *stream, struct error *err)
{
    struct receive_streams *streams = stream->set;
    bool last = stream->record.header.flags & WIRE_FLAG_LAST;
    uint32_t round;
    int rc = 0;

    lock(streams);
    round = streams->round;
    if (streams->arrived == 0)
        streams->last = last;
    if (streams->last != last)
        rc = error_set(err, EPROTO, "the streams do not agree which round is the last");
    if (!rc && !last && round == UINT32_MAX)
        rc = error_set(err, EPROTO, "the round number overflowed");
    if (!rc && ++streams->arrived == streams->count) {
        streams->arrived = 0;
        streams->done = last;
        streams->round += !last;
        (void)pthread_cond_broadcast(&streams->changed);
    }
    while (!rc && streams->round == round && !streams->done) {
        if (streams->rc || (stream->index == 0 && streams->lost_rc)) {
            rc = streams->rc ? streams->rc : streams->lost_rc;
            *err = streams->rc ? streams->err : streams->lost_err;
            break;
        }
        (void)pthread_cond_wait(&streams->changed, &streams->lock);
    }
    unlock(streams);
    return rc;
}

/* Everything of the round is in guest RAM. */
static int end_round(struct receive_stream *stream, struct error *err)
{
    struct wire_header synced = {.type = WIRE_SYNCED, .round = stream->record.header.round};
    struct progress_view *view;
    int rc = meet(stream, err);

    if (rc || stream->index != 0 || (stream->record.header.flags & WIRE_FLAG_LAST))
        return rc;
    view = progress_begin(stream->set->progress);
    view->nrounds = (uint64_t)synced.round + 1;
    progress_end(stream->set->progress);
    return record_send(stream->link, &synced, NULL, 0, NULL, 0, err);
}

static int take_record(struct receive_stream *stream, uint32_t round, struct error *err)
{
    const struct wire_header *header = &stream->record.header;

    if (header->round != round)
        return error_set(err, EPROTO, "%s of round %" PRIu32 " in round %" PRIu32,
                         wire_type_name(header->type), header->round, round);
    switch (header->type) {
    case WIRE_EXTENTS:
        return take_extents(stream, err);
    case WIRE_PAGES:
        if (stream->index == 0)
            populate_begin(stream->set->populate, stream->set->count);
        return receive_pages_take(stream->set->pages, &stream->scratch, stream->link,
                                  &stream->record, err);
    case WIRE_SYNC:
        return end_round(stream, err);
    default:
        return error_set(err, EPROTO, "%s is out of place", wire_type_name(header->type));
    }
}

static uint64_t received_by_all(const struct receive_streams *streams)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < streams->count; i++)
        bytes += channel_received_bytes(streams->stream[i]->link->channel);
    return bytes;
}

/* Somebody else's failure ends this stream too. */
static int others_failed(struct receive_stream *stream, struct error *err)
{
    struct receive_streams *streams = stream->set;
    int rc;

    lock(streams);
    rc = streams->rc;
    if (rc)
        *err = streams->err;
    unlock(streams);
    return rc;
}

/* A stream that got its share early has nothing to say until the others got theirs: as long as any
 * of them moves, the source is alive. */
static int wait_record(struct receive_stream *stream, struct error *err)
{
    struct channel *channel = stream->link->channel;
    uint64_t deadline_ns = channel_deadline_ns(channel);
    uint64_t before = received_by_all(stream->set);

    for (;;) {
        uint64_t now;
        int rc = others_failed(stream, err);

        if (!rc)
            rc = channel_wait_readable(channel, deadline_ns, err);
        if (rc)
            return rc < 0 ? rc : 0;
        now = received_by_all(stream->set);
        if (now == before)
            return error_set(err, ETIMEDOUT,
                             "the peer has been silent for %.1f s while receiving at byte %" PRIu64,
                             (double)deadline_ns / (double)CLOCK_NS_PER_SEC,
                             channel_received_bytes(channel));
        before = now;
    }
}

/* Until this stream has ended the last round. */
static int copy(struct receive_stream *stream, struct error *err)
{
    bool done = false;
    int rc = 0;

    for (uint32_t round = 0; !rc && !done;) {
        uint64_t offset = channel_received_bytes(stream->link->channel);
        uint64_t data = stream->scratch.data_pages, zero = stream->scratch.zero_pages;

        rc = wait_record(stream, err);
        if (!rc)
            rc = record_receive(stream->link, &stream->record, err);
        if (rc)
            break;
        rc = take_record(stream, round, err);
        if (rc == -EPROTO)
            error_prefix(err, "at byte %" PRIu64, offset);
        if (stream->record.header.type == WIRE_SYNC) {
            round++;
            done = stream->record.header.flags & WIRE_FLAG_LAST;
        }
        show_progress(stream, stream->scratch.data_pages - data, stream->scratch.zero_pages - zero,
                      channel_received_bytes(stream->link->channel) - offset);
    }
    return rc;
}

/* One of the others failed. A broken connection is left to stream 0 to explain: the source closes
 * all of them, and says why only there. */
static void tell_failure(struct receive_stream *stream, int rc, struct error *err)
{
    struct receive_streams *streams = stream->set;

    error_prefix(err, "stream %u", stream->index);
    lock(streams);
    if (rc == -ECONNRESET && !streams->lost_rc) {
        streams->lost_rc = rc;
        streams->lost_err = *err;
    } else if (!streams->rc) {
        streams->rc = rc;
        streams->err = *err;
        channel_shut(streams->stream[0]->link->channel, false);
    }
    (void)pthread_cond_broadcast(&streams->changed);
    unlock(streams);
}

static void *stream_main(void *opaque)
{
    struct receive_stream *stream = opaque;
    struct error err = {.text = ""};
    int rc = copy(stream, &err);

    if (rc)
        tell_failure(stream, rc, &err);
    return NULL;
}

/* ---- all of them */

static int add(struct receive_streams *streams, struct record_link *link, struct channel *channel,
               unsigned index, struct error *err)
{
    struct receive_stream *stream = calloc(1, sizeof(*stream));

    if (!stream) {
        channel_close(channel);
        return error_set(err, ENOMEM, "no memory for stream %u", index);
    }
    stream->set = streams;
    stream->index = index;
    stream->own_link.channel = channel;
    stream->link = link ? link : &stream->own_link;
    streams->stream[index] = stream;
    return 0;
}

int receive_streams_open(struct receive_streams *streams, struct record_link *first,
                         struct progress *progress, struct error *err)
{
    (void)pthread_mutex_init(&streams->lock, NULL);
    (void)pthread_cond_init(&streams->changed, NULL);
    streams->progress = progress;
    streams->count = 1;
    return add(streams, first, NULL, 0, err);
}

/* Is it the stream that it says, of this session, and not there yet? */
static int check_hello(const struct receive_streams *streams, const struct wire_hello *session,
                       const struct wire_hello *hello, struct error *err)
{
    uint16_t version;
    int rc = wire_choose_version(hello, &version, err);

    if (rc)
        return rc;
    if (memcmp(hello->session, session->session, sizeof(hello->session)) != 0 ||
        hello->stream_count != session->stream_count || hello->stream_index == 0 ||
        streams->stream[hello->stream_index])
        return error_set(err, EPROTO, "it is no stream of the migration that is under way");
    return 0;
}

/* Takes in one connection; *joined unless it was a stranger. */
static int welcome(struct receive_streams *streams, struct channel *channel,
                   const struct wire_hello *session, bool *joined, struct error *err)
{
    struct record_link link = {.channel = channel};
    struct error stranger = {.text = ""};
    struct wire_hello hello;
    uint64_t outer = channel_bound(channel);
    int rc = record_receive_hello(&link, WIRE_ROLE_SOURCE, &hello, &stranger);

    channel_unbound(channel, outer);
    if (!rc)
        rc = check_hello(streams, session, &hello, &stranger);
    if (rc == -ECANCELED) {
        *err = stranger;
        channel_close(channel);
        return rc;
    }
    if (rc) {
        log_warning("a connection was turned away: %s", stranger.text);
        channel_close(channel);
        return 0;
    }
    rc = add(streams, NULL, channel, hello.stream_index, err);
    if (rc)
        return rc;
    *joined = true;
    hello.role = WIRE_ROLE_DESTINATION;
    hello.version_min = WIRE_VERSION_MIN;
    hello.version_max = WIRE_VERSION_MAX;
    return record_send_hello(streams->stream[hello.stream_index]->link, &hello, err);
}

int receive_streams_join(struct receive_streams *streams, const struct migrate_links *links,
                         const struct wire_hello *session, struct error *err)
{
    uint64_t deadline_ns = channel_deadline_ns(links->first);
    uint64_t since_ns = clock_now_ns();
    int rc = 0;

    while (!rc && streams->count < session->stream_count) {
        struct channel *channel = NULL;
        bool joined = false;

        rc = links->next(links->opaque, &channel, err);
        if (rc == -ECONNRESET) /* the source has said why, if it could */
            record_collect_error(streams->stream[0]->link, err);
        if (!rc)
            rc = welcome(streams, channel, session, &joined, err);
        streams->count += joined;
        /* Strangers that are turned away must not keep the wait alive. */
        if (joined)
            since_ns = clock_now_ns();
        else if (!rc && clock_now_ns() - since_ns > deadline_ns)
            rc = error_set(err, ETIMEDOUT,
                           "the source did not connect all its streams within %.1f s",
                           (double)deadline_ns / (double)CLOCK_NS_PER_SEC);
    }
    return rc;
}

static int start(struct receive_streams *streams, struct error *err)
{
    for (unsigned i = 1; i < streams->count; i++) {
        struct receive_stream *stream = streams->stream[i];
        int rc = pthread_create(&stream->thread, NULL, stream_main, stream);

        if (rc)
            return error_set(err, rc, "a thread for stream %u: %s", i, strerror(rc));
        stream->started = true;
    }
    return 0;
}

/* Whoever failed first tells; the engine's own stream may only have been woken by it. */
static void first_reason(struct receive_streams *streams, int *rc, struct error *err)
{
    lock(streams);
    if (streams->rc && *rc) {
        *rc = streams->rc;
        *err = streams->err;
    }
    unlock(streams);
}

int receive_streams_copy(struct receive_streams *streams, struct receive_pages *pages,
                         struct populate *populate, struct error *err)
{
    int rc;

    streams->pages = pages;
    streams->populate = pages->populate = populate;
    progress_begin(streams->progress)->sent_bytes =
        channel_received_bytes(streams->stream[0]->link->channel);
    progress_end(streams->progress);
    rc = start(streams, err);
    if (!rc)
        rc = copy(streams->stream[0], err);
    first_reason(streams, &rc, err);
    if (rc == -ECONNRESET && streams->count > 1)
        record_collect_error(streams->stream[0]->link, err);
    return rc;
}

static void join_threads(struct receive_streams *streams)
{
    lock(streams);
    if (!streams->done && !streams->rc)
        streams->rc = -ECANCELED; /* for those that wait for each other */
    (void)pthread_cond_broadcast(&streams->changed);
    unlock(streams);
    for (unsigned i = 1; i < WIRE_MAX_STREAMS; i++) {
        struct receive_stream *stream = streams->stream[i];

        if (!stream || !stream->started)
            continue;
        channel_shut(stream->link->channel, true);
        (void)pthread_join(stream->thread, NULL);
    }
}

void receive_streams_close(struct receive_streams *streams)
{
    if (!streams->count)
        return;
    join_threads(streams);
    for (unsigned i = 0; i < WIRE_MAX_STREAMS; i++) {
        if (!streams->stream[i])
            continue;
        channel_close(streams->stream[i]->own_link.channel);
        receive_scratch_free(&streams->stream[i]->scratch);
        free(streams->stream[i]);
        streams->stream[i] = NULL;
    }
    (void)pthread_cond_destroy(&streams->changed);
    (void)pthread_mutex_destroy(&streams->lock);
    streams->count = 0;
}
