/* SPDX-License-Identifier: MIT */
#include "migrate/receive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/handover.h"
#include "migrate/populate.h"
#include "migrate/receive_pages.h"
#include "vmm/base/clock.h"

struct receive {
    const struct migrate_sink *sink;
    struct progress *progress;
    struct record_link link;
    struct record record;
    struct wire_hello hello; /* the source's */
    struct receive_pages pages;
    struct populate populate;
    enum handover_destination owner;
    uint32_t round; /* the one that is being received */
    bool last_done; /* its SYNC said that no other follows */
    bool offered;   /* the source has sent its machine */
    bool created;   /* the sink has a machine */
};

static int say_hello(struct receive *r, struct error *err)
{
    struct wire_hello ours = {.version_min = WIRE_VERSION_MIN,
                              .version_max = WIRE_VERSION_MAX,
                              .role = WIRE_ROLE_DESTINATION,
                              .stream_count = 1,
                              .page_bytes = MIGRATE_PAGE_BYTES};
    uint16_t version;
    int rc = record_receive_hello(&r->link, WIRE_ROLE_SOURCE, &r->hello, err);

    if (rc)
        return rc;
    memcpy(ours.session, r->hello.session, sizeof(ours.session));
    /* Answered even where the versions do not match: the source then names both. */
    rc = record_send_hello(&r->link, &ours, err);
    return rc ? rc : wire_choose_version(&r->hello, &version, err);
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

static int finish_round(struct receive *r, struct error *err)
{
    struct wire_header synced = {.type = WIRE_SYNCED, .round = r->round};
    struct progress_view *view;

    if (r->record.header.flags & WIRE_FLAG_LAST) {
        r->last_done = true;
        return 0;
    }
    if (r->round == UINT32_MAX)
        return error_set(err, EPROTO, "the round number overflowed");
    view = progress_begin(r->progress);
    view->nrounds = (uint64_t)r->round + 1;
    progress_end(r->progress);
    r->round++;
    return record_send(&r->link, &synced, NULL, 0, NULL, 0, err);
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

/* Takes one record of the copy; *complete is set when the state was loaded. */
static int take_record(struct receive *r, bool *complete, struct error *err)
{
    const struct wire_header *header = &r->record.header;
    bool memory =
        header->type == WIRE_EXTENTS || header->type == WIRE_PAGES || header->type == WIRE_SYNC;
    int rc;

    if (header->round != r->round)
        return error_set(err, EPROTO, "%s of round %" PRIu32 " in round %" PRIu32,
                         wire_type_name(header->type), header->round, r->round);
    if (r->last_done ? header->type != WIRE_STATE : !memory)
        return error_set(err, EPROTO, "%s is out of place", wire_type_name(header->type));
    switch (header->type) {
    case WIRE_EXTENTS:
        /* The thread reads what this writes, so all extents come first. */
        if (r->populate.started)
            return error_set(err, EPROTO, "EXTENTS after the first PAGES");
        return populate_add(&r->populate, &r->record, err);
    case WIRE_PAGES:
        populate_start(&r->populate);
        rc = receive_pages_take(&r->pages, &r->link, &r->record, err);
        return rc;
    case WIRE_SYNC:
        return finish_round(r, err);
    default:
        rc = take_state(r, err);
        *complete = rc == 0;
        return rc;
    }
}

static void show_progress(struct receive *r)
{
    struct progress_view *view = progress_begin(r->progress);

    view->data_pages = r->pages.data_pages;
    view->zero_pages = r->pages.zero_pages;
    view->sent_bytes = channel_received_bytes(r->link.channel);
    progress_end(r->progress);
}

static int copy_guest(struct receive *r, struct error *err)
{
    bool complete = false;
    int rc = 0;

    progress_set_phase(r->progress, PROGRESS_ROUNDS);
    while (!rc && !complete) {
        uint64_t offset = channel_received_bytes(r->link.channel);

        rc = record_receive(&r->link, &r->record, err);
        if (rc)
            break;
        rc = take_record(r, &complete, err);
        if (rc == -EPROTO)
            error_prefix(err, "at byte %" PRIu64, offset);
        show_progress(r);
    }
    return rc;
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

    /* Irrevocable from here on, so the source may be told before the slow part. */
    (void)handover_destination_step(&r->owner, HANDOVER_EVENT_LOST);
    channel_forget_cancel(r->link.channel); /* whoever cancelled: the source is told why */
    if (hello_done && code != -ECONNRESET && code != -ECONNABORTED)
        record_send_error(&r->link, err->text);
    populate_stop(&r->populate); /* before the memory goes */
    if (r->created)
        r->sink->ops->discard(r->sink->opaque);
    progress_get(r->progress, &view);
    error_prefix(err, "%s", progress_phase_name(view.phase));
    if (!r->offered)
        return RECEIVE_STRANGER;
    return r->hello.flags & WIRE_HELLO_CHECK ? RECEIVE_CHECKED : RECEIVE_DISCARDED;
}

enum receive_outcome receive_run(const struct migrate_sink *sink, struct channel *channel,
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
    r->link.channel = channel;
    progress_begin(progress)->started_ns = clock_now_ns();
    progress_end(progress);
    progress_set_phase(progress, PROGRESS_HELLO);
    outer = channel_bound(channel);
    rc = say_hello(r, err);
    hello_done = rc == 0;
    if (!rc)
        rc = accept_machine(r, err);
    channel_unbound(channel, outer);
    if (!rc && (r->hello.flags & WIRE_HELLO_CHECK)) {
        outcome = RECEIVE_CHECKED;
        goto out;
    }
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
    populate_stop(&r->populate);
    receive_pages_free(&r->pages);
    free(r);
    return outcome;
}
