/* SPDX-License-Identifier: MIT */
#include "migrate/receive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/handover.h"
#include "migrate/populate.h"
#include "migrate/receive_pages.h"
#include "migrate/receive_streams.h"
#include "vmm/base/clock.h"

struct receive {
    const struct migrate_sink *sink;
    struct progress *progress;
    const struct migrate_links *links;
    struct record_link link; /* stream 0 */
    struct record record;    /* scratch, of stream 0 outside the rounds */
    struct wire_hello hello; /* the source's */
    struct receive_pages pages;
    struct receive_streams streams;
    struct populate populate;
    enum handover_destination owner;
    uint32_t round; /* the last one */
    bool offered;   /* the source has sent its machine */
    bool created;   /* the sink has a machine */
};

static int say_hello(struct receive *r, struct error *err)
{
    struct wire_hello ours = {.version_min = WIRE_VERSION_MIN,
                              .version_max = WIRE_VERSION_MAX,
                              .role = WIRE_ROLE_DESTINATION,
                              .features = WIRE_FEATURE_ZSTD | WIRE_FEATURE_LZ4,
                              .page_bytes = MIGRATE_PAGE_BYTES};
    uint16_t version;
    int rc = record_receive_hello(&r->link, WIRE_ROLE_SOURCE, &r->hello, err);

    if (rc)
        return rc;
    memcpy(ours.session, r->hello.session, sizeof(ours.session));
    ours.stream_index = r->hello.stream_index;
    ours.stream_count = r->hello.stream_count;
    /* Answered even where the versions do not match: the source then names both. */
    rc = record_send_hello(&r->link, &ours, err);
    if (!rc)
        rc = wire_choose_version(&r->hello, &version, err);
    if (rc)
        return rc;
    if (r->hello.stream_index != 0)
        return error_set(err, EPROTO, "stream %u of %u comes before the first",
                         (unsigned)r->hello.stream_index, (unsigned)r->hello.stream_count);
    if (r->hello.stream_count > 1 && !r->links->next)
        return error_set(err, EPROTO,
                         "this end has one stream, the source wants %u: use --streams 1",
                         (unsigned)r->hello.stream_count);
    return 0;
}

static int accept_machine(struct receive *r, struct error *err)
{
    const struct migrate_sink_ops *ops = r->sink->ops;
    struct wire_header accept = {.type = WIRE_ACCEPT};
    struct migrate_layout layout = {.nregions = 0};
    void *tree = NULL;
    size_t tree_bytes;
    int rc;

    progress_set_phase(r->progress, PROGRESS_MACHINE);
    rc = record_receive(&r->link, &r->record, err);
    if (!rc && (r->record.header.type != WIRE_MACHINE || r->record.header.round))
        rc = error_set(err, EPROTO, "got %s where MACHINE was due",
                       wire_type_name(r->record.header.type));
    if (!rc)
        rc = record_receive_payload(&r->link, &r->record, &tree, err);
    if (rc)
        return rc;
    r->offered = true;
    tree_bytes = (size_t)r->record.header.payload_bytes;
    rc = ops->check(r->sink->opaque, tree, tree_bytes, err);
    if (!rc) {
        rc = ops->create(r->sink->opaque, tree, tree_bytes, &layout, err);
        r->created = rc == 0;
    }
    free(tree);
    if (!rc && (r->hello.flags & WIRE_HELLO_CHECK)) {
        /* Built once to know that it can be: huge pages, memory, KVM itself. */
        ops->discard(r->sink->opaque);
        r->created = false;
    } else if (!rc) {
        rc = receive_pages_init(&r->pages, &layout, err);
        if (!rc)
            rc = populate_init(&r->populate, r->sink, &layout, err);
    }
    return rc ? rc : record_send(&r->link, &accept, NULL, 0, NULL, 0, err);
}

/* Loads the state; on return, everything fallible is done. */
static int take_state(struct receive *r, struct error *err)
{
    void *state = NULL;
    int rc;

    progress_set_phase(r->progress, PROGRESS_STATE);
    /* Whatever is still being populated would only compete with the guest. */
    populate_stop(&r->populate);
    rc = record_receive_payload(&r->link, &r->record, &state, err);
    if (!rc)
        rc =
            r->sink->ops->load(r->sink->opaque, state, (size_t)r->record.header.payload_bytes, err);
    free(state);
    return rc;
}

static int copy_guest(struct receive *r, struct error *err)
{
    uint64_t offset;
    int rc;

    progress_set_phase(r->progress, PROGRESS_ROUNDS);
    rc = receive_streams_copy(&r->streams, &r->pages, &r->populate, err);
    if (rc)
        return rc;
    r->round = r->streams.round;
    offset = channel_received_bytes(r->link.channel);
    rc = record_receive(&r->link, &r->record, err);
    if (!rc && (r->record.header.type != WIRE_STATE || r->record.header.round != r->round)) {
        rc = error_set(err, EPROTO, "%s of round %" PRIu32 " is out of place",
                       wire_type_name(r->record.header.type), r->record.header.round);
        error_prefix(err, "at byte %" PRIu64, offset);
    }
    return rc ? rc : take_state(r, err);
}

static int take_over(struct receive *r, struct error *err)
{
    struct wire_header ready = {.type = WIRE_READY, .round = r->round};
    int rc = 0;

    progress_set_phase(r->progress, PROGRESS_READY);
    if (handover_destination_step(&r->owner, HANDOVER_EVENT_LOADED) != HANDOVER_DO_SEND_READY)
        return error_set(err, EPROTO, "the handover is out of order");
    rc = record_send(&r->link, &ready, NULL, 0, NULL, 0, err);
    if (!rc)
        rc = record_expect(&r->link, WIRE_COMMIT, r->round, &r->record, err);
    if (!rc && handover_destination_step(&r->owner, HANDOVER_EVENT_COMMIT) != HANDOVER_DO_RUN)
        rc = error_set(err, EPROTO, "the handover is out of order");
    return rc;
}

/* The guest is ours: nothing that follows can take it back. */
static void run_guest(struct receive *r)
{
    struct wire_header running = {.type = WIRE_RUNNING, .round = r->round};
    uint8_t meta[sizeof(uint64_t)];
    struct error ignored = {.text = ""};
    struct progress_view *view;
    uint64_t now;

    channel_forget_cancel(r->link.channel); /* too late: the source must hear RUNNING */
    r->sink->ops->run(r->sink->opaque, (r->record.header.flags & WIRE_FLAG_RUN) != 0);
    now = clock_now_ns();
    wire_put_u64(meta, now);
    /* If this is lost the source is in doubt, which its user has to settle; the guest runs here all
     * the same. */
    (void)record_send(&r->link, &running, meta, sizeof(meta), NULL, 0, &ignored);
    view = progress_begin(r->progress);
    view->phase = PROGRESS_DONE;
    view->running_ns = now;
    view->resumed_at_ns = now;
    view->ended_ns = clock_now_ns();
    progress_end(r->progress);
}

static enum receive_outcome give_up(struct receive *r, bool hello_done, int code, struct error *err)
{
    struct progress_view view;
    bool ready = r->owner == HANDOVER_READY;

    /* Irrevocable from here on, so the source may be told before the slow part. */
    (void)handover_destination_step(&r->owner, HANDOVER_EVENT_LOST);
    channel_forget_cancel(r->link.channel); /* whoever cancelled: the source is told why */
    if (hello_done && code != -ECONNRESET && code != -ECONNABORTED)
        record_send_error(&r->link, err->text);
    receive_streams_close(&r->streams);
    populate_stop(&r->populate); /* before the memory goes */
    if (r->created)
        r->sink->ops->discard(r->sink->opaque);
    progress_get(r->progress, &view);
    error_prefix(err, "%s", progress_phase_name(view.phase));
    if (!r->offered)
        return RECEIVE_STRANGER;
    if (r->hello.flags & WIRE_HELLO_CHECK)
        return RECEIVE_CHECKED;
    return ready && code != -ECONNABORTED ? RECEIVE_ABANDONED : RECEIVE_DISCARDED;
}

enum receive_outcome receive_run(const struct migrate_sink *sink, const struct migrate_links *links,
                                 struct progress *progress, struct error *err)
{
    struct receive *r = calloc(1, sizeof(*r));
    enum receive_outcome outcome;
    bool hello_done;
    uint64_t outer;
    int rc;

    if (!r) {
        (void)error_set(err, ENOMEM, "no memory for a migration");
        return RECEIVE_STRANGER;
    }
    r->sink = sink;
    r->progress = progress;
    r->links = links;
    r->link.channel = links->first;
    progress_begin(progress)->started_ns = clock_now_ns();
    progress_end(progress);
    progress_set_phase(progress, PROGRESS_HELLO);
    outer = channel_bound(links->first);
    rc = say_hello(r, err);
    hello_done = rc == 0;
    if (!rc)
        rc = accept_machine(r, err);
    channel_unbound(links->first, outer);
    if (!rc && (r->hello.flags & WIRE_HELLO_CHECK)) {
        outcome = RECEIVE_CHECKED;
        goto out;
    }
    if (!rc)
        progress_set_phase(progress, PROGRESS_JOIN);
    if (!rc)
        rc = receive_streams_open(&r->streams, &r->link, progress, err);
    if (!rc)
        rc = receive_streams_join(&r->streams, links, &r->hello, err);
    if (!rc)
        rc = copy_guest(r, err);
    if (!rc)
        rc = take_over(r, err);
    if (rc) {
        outcome = give_up(r, hello_done, rc, err);
    } else {
        run_guest(r);
        outcome = RECEIVE_RUNNING;
    }
out:
    receive_streams_close(&r->streams);
    populate_stop(&r->populate);
    receive_pages_free(&r->pages);
    free(r);
    return outcome;
}
