/* SPDX-License-Identifier: MIT */
#include "migrate/precopy.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/precopy_internal.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

/* A round shorter than this says more about the round trip than about the link: it can only tell
 * that the link is faster than was thought. */
#define BANDWIDTH_SAMPLE_BYTES (4ull * 1024 * 1024)

static int offer_machine(struct precopy *p, struct error *err)
{
    struct wire_header header = {.type = WIRE_MACHINE};
    const void *tree;
    size_t tree_bytes;
    uint64_t total = 0;
    int rc;

    progress_set_phase(p->progress, PROGRESS_MACHINE);
    rc = p->source->ops->describe(p->source->opaque, &tree, &tree_bytes, &p->copier.layout, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < p->copier.layout.nregions; i++)
        total += p->copier.layout.region[i].npages * MIGRATE_PAGE_BYTES;
    progress_begin(p->progress)->total_bytes = total;
    progress_end(p->progress);
    rc = record_send(&p->link, &header, NULL, 0, tree, tree_bytes, err);
    return rc ? rc : record_expect(&p->link, WIRE_ACCEPT, 0, &p->record, err);
}

/* What switching over costs whatever the last round's size: pausing and saving, measured by doing
 * it once while the guest still has a long copy behind it, twice because the destination's loading
 * costs about the same. A disturbed sample is corrected by a later one. */
static int measure_fixed_cost(struct precopy *p, struct error *err)
{
    const struct migrate_source_ops *ops = p->source->ops;
    uint64_t begin = clock_now_ns();
    void *state = NULL;
    size_t state_bytes;
    uint64_t cost_ns;
    bool was_running;
    int rc, resumed;

    rc = ops->pause(p->source->opaque, false, &was_running, err);
    if (rc)
        return rc;
    rc = ops->save(p->source->opaque, &state, &state_bytes, err);
    cost_ns = 2 * (clock_now_ns() - begin);
    if (!p->fixed_ns || cost_ns < p->fixed_ns)
        p->fixed_ns = cost_ns;
    free(state);
    resumed = ops->resume(p->source->opaque, was_running, err);
    return rc ? rc : resumed;
}

/* Begins a round's statistics; the counterpart of end_round(). */
static uint64_t begin_round(struct precopy *p, uint64_t pending_pages)
{
    struct progress_view *view = progress_begin(p->progress);

    view->nrounds = (uint64_t)p->round + 1;
    view->remaining_bytes = pending_pages * MIGRATE_PAGE_BYTES;
    memset(&view->rounds[p->round % PROGRESS_MAX_ROUNDS], 0, sizeof(view->rounds[0]));
    progress_end(p->progress);
    progress_notify(p->progress);
    return clock_now_ns();
}

static void end_round(struct precopy *p, uint64_t begin_ns)
{
    uint64_t ns = clock_now_ns() - begin_ns;
    uint64_t sample;
    struct progress_view *view = progress_begin(p->progress);
    struct progress_round *slot = &view->rounds[p->round % PROGRESS_MAX_ROUNDS];

    slot->ns = ns;
    view->remaining_bytes = 0;
    sample =
        (uint64_t)((double)slot->sent_bytes / (double)(ns ? ns : 1) * (double)CLOCK_NS_PER_SEC);
    if (slot->sent_bytes >= BANDWIDTH_SAMPLE_BYTES || sample > p->bandwidth)
        p->bandwidth = sample;
    view->bandwidth = p->bandwidth;
    progress_end(p->progress);
}

int precopy_sync(struct precopy *p, uint64_t *pending_pages, struct error *err)
{
    uint64_t begin = clock_now_ns();
    int rc = p->source->ops->sync(p->source->opaque, pending_pages, err);

    progress_took(p->progress, &p->progress->view.sync_ns, begin);
    return rc;
}

void precopy_saw_round_trip(struct precopy *p, uint64_t begin_ns)
{
    uint64_t ns = clock_now_ns() - begin_ns;

    if (!p->round_trip_ns || ns < p->round_trip_ns)
        p->round_trip_ns = ns;
}

int precopy_run_round(struct precopy *p, uint64_t pending_pages, bool last, struct error *err)
{
    uint64_t begin = begin_round(p, pending_pages);
    uint64_t sent_ns;
    int rc = precopy_send_round(&p->copier, p->round, pending_pages, last, err);

    if (!rc && !last) {
        sent_ns = clock_now_ns();
        rc = streams_wait_answer(&p->copier.streams, channel_deadline_ns(p->link.channel), err);
        if (!rc)
            rc = record_expect(&p->link, WIRE_SYNCED, p->round, &p->record, err);
        if (!rc)
            precopy_saw_round_trip(p, sent_ns);
    }
    end_round(p, begin);
    return rc;
}

static void show_prediction(struct precopy *p, uint64_t pending_pages, uint64_t predicted_ns,
                            uint64_t dirty_rate)
{
    struct progress_view *view = progress_begin(p->progress);

    view->remaining_bytes = pending_pages * MIGRATE_PAGE_BYTES;
    view->predicted_downtime_ns = predicted_ns;
    view->dirty_rate = dirty_rate;
    progress_end(p->progress);
}

static uint64_t total_pages(const struct precopy *p)
{
    uint64_t pages = 0;

    for (unsigned i = 0; i < p->copier.layout.nregions; i++)
        pages += p->copier.layout.region[i].npages;
    return pages;
}

static int set_throttle(struct precopy *p, unsigned percent, struct error *err)
{
    int rc;

    /* The same again is not nothing: which vCPU is slowed how much may have to change. */
    if (percent == 0 && p->throttle == 0)
        return 0;
    rc = p->source->ops->throttle(p->source->opaque, percent, err);
    if (rc)
        return rc;
    p->throttle = percent;
    progress_begin(p->progress)->throttle = percent;
    progress_end(p->progress);
    return 0;
}

/* Acts on what the round that just ended left; *go_on is cleared where the copy is over. */
static int judge_round(struct precopy *p, uint64_t pending, uint64_t round_ns, bool *go_on,
                       struct error *err)
{
    struct converge_input input = {.pending_bytes = pending * MIGRATE_PAGE_BYTES,
                                   .bandwidth = p->bandwidth,
                                   /* STATE to READY, COMMIT to RUNNING. */
                                   .fixed_ns = p->fixed_ns + 2 * p->round_trip_ns,
                                   .elapsed_ns = clock_now_ns() - p->rounds_begin_ns,
                                   .dirty_rate = converge_dirty_rate(pending, round_ns)};
    struct converge_verdict verdict = converge_decide(&p->policy, &input, &p->history);
    char why[CONVERGE_TEXT_BYTES];

    show_prediction(p, pending, verdict.predicted_ns, input.dirty_rate);
    (void)converge_explain(&p->policy, &input, &verdict, why, sizeof(why));
    log_info("round %" PRIu32 ": %s", p->round, why);
    *go_on = verdict.decision == CONVERGE_ANOTHER_ROUND;
    if (verdict.decision == CONVERGE_GIVE_UP)
        return error_set(err, ETIMEDOUT, "%s", why);
    if (verdict.decision == CONVERGE_SWITCH_OVER)
        return set_throttle(p, 0, err);
    return set_throttle(p, verdict.throttle, err);
}

static void begin_rounds(struct precopy *p)
{
    p->rounds_begin_ns = clock_now_ns();
    p->policy = (struct converge_policy){.limit_ns = p->options->downtime_limit_ns,
                                         .timeout_ns = p->options->timeout_ns,
                                         .on_timeout = p->options->on_timeout,
                                         .throttle = p->options->throttle};
    /* Then a round is given up in its middle; to switch over, it has to end. */
    if (p->policy.timeout_ns && p->policy.on_timeout == CONVERGE_ON_TIMEOUT_CANCEL)
        p->copier.streams.until_ns = p->rounds_begin_ns + p->policy.timeout_ns;
    progress_begin(p->progress)->rounds_started_ns = p->rounds_begin_ns;
    progress_end(p->progress);
    progress_set_phase(p->progress, PROGRESS_ROUNDS);
}

/* The line of a round that the timeout ended in its middle gets its numbers. */
static void explain_timeout(const struct precopy *p, struct error *err)
{
    struct progress_view view;
    char left[16], rate[16], after[16], limit[16];

    if (!p->copier.streams.late)
        return;
    progress_get(p->progress, &view);
    (void)error_set(err, ETIMEDOUT,
                    "giving up: the timeout of %s is over (%s of the round left, %s/s, %" PRIu64
                    " pages/s dirtied, downtime limit %s)",
                    size_format_duration(p->policy.timeout_ns, after, sizeof(after)),
                    size_format(view.remaining_bytes, left, sizeof(left)),
                    size_format(view.bandwidth, rate, sizeof(rate)), view.dirty_rate,
                    size_format_duration(p->policy.limit_ns, limit, sizeof(limit)));
}

static int copy_rounds(struct precopy *p, struct error *err)
{
    uint64_t pending = total_pages(p);
    bool go_on = true;

    begin_rounds(p);
    for (;; p->round++) {
        uint64_t begin = clock_now_ns();
        int rc = precopy_run_round(p, pending, false, err);

        if (rc == -ETIMEDOUT)
            explain_timeout(p, err);
        if (!rc)
            rc = precopy_sync(p, &pending, err);
        if (!rc && (p->round == 0 || p->fixed_ns > p->options->downtime_limit_ns / 2))
            rc = measure_fixed_cost(p, err);
        if (!rc)
            rc = judge_round(p, pending, clock_now_ns() - begin, &go_on, err);
        if (rc || !go_on) {
            p->copier.streams.until_ns = 0; /* from here on it ends by itself */
            return rc;
        }
        if (p->round == UINT32_MAX)
            return error_set(err, EOVERFLOW, "the guest did not converge in 2^32 rounds");
    }
}

static int migrate_guest(struct precopy *p, struct error *err)
{
    const struct migrate_source *source = p->source;
    int rc = precopy_copier_init(&p->copier, p->options, &p->link, err);

    progress_set_phase(p->progress, PROGRESS_JOIN);
    if (!rc)
        rc = precopy_join_streams(p, err);
    if (!rc)
        rc = source->ops->log_start(source->opaque, err);
    if (rc)
        return rc;
    p->logging = true;
    rc = precopy_send_extents(&p->copier, err);
    if (!rc)
        rc = copy_rounds(p, err);
    if (!rc)
        rc = precopy_switch_over(p, err);
    return rc;
}

/* Where in the migration it failed, in front of why. */
static void name_phase(const struct precopy *p, enum progress_phase phase, struct error *err)
{
    if (phase == PROGRESS_ROUNDS)
        error_prefix(err, "in round %" PRIu32, p->round);
    else
        error_prefix(err, "%s", progress_phase_name(phase));
}

/* The guest goes on here, as it was. */
static void keep_guest(struct precopy *p, struct error *err)
{
    struct error resume_error = {.text = ""};

    if (!p->paused)
        return;
    if (p->source->ops->resume(p->source->opaque, p->was_running, &resume_error))
        error_prefix(err, "the guest could not be resumed (%s) after", resume_error.text);
    p->paused = false;
    progress_begin(p->progress)->running_ns = clock_now_ns();
    progress_end(p->progress);
}

/* Full speed again, whatever went wrong. */
static void free_guest(struct precopy *p)
{
    struct error slow = {.text = ""};

    if (set_throttle(p, 0, &slow))
        log_error("the guest stays slowed: %s", slow.text);
}

static enum precopy_outcome settle_failure(struct precopy *p, int code, struct error *err)
{
    struct progress_view view;

    progress_get(p->progress, &view);
    if (handover_source_step(&p->owner, HANDOVER_EVENT_LOST) == HANDOVER_DO_HOLD) {
        name_phase(p, view.phase, err);
        streams_stop(&p->copier.streams);
        if (p->options->doubt)
            *p->options->doubt = (struct precopy_doubt){.owner = p->owner,
                                                        .round = p->round,
                                                        .was_running = p->was_running,
                                                        .link = p->link};
        if (p->options->doubt)
            memcpy(p->options->doubt->session, p->hello.session, sizeof(p->hello.session));
        return PRECOPY_IN_DOUBT;
    }
    /* First the guest, then the talking. */
    free_guest(p);
    keep_guest(p, err);
    streams_stop(&p->copier.streams);
    if (code == -ECANCELED && p->source->ops->alive(p->source->opaque, err))
        code = -ESHUTDOWN; /* cancelled because there is nothing left to move */
    channel_forget_cancel(p->link.channel);
    if (code == -ECANCELED)
        record_send_error(&p->link, "the migration was cancelled at the source");
    else if (code == -ECONNRESET)
        record_collect_error(&p->link, err);
    else if (code != -ECONNABORTED)
        record_send_error(&p->link, err->text);
    name_phase(p, view.phase, err);
    return code == -ECANCELED ? PRECOPY_CANCELLED : PRECOPY_FAILED;
}

static void account_end(struct precopy *p)
{
    struct progress_view *view = progress_begin(p->progress);

    view->ended_ns = clock_now_ns();
    if (p->copier.streams.count)
        streams_account(&p->copier.streams, view);
    else
        view->sent_bytes = channel_sent_bytes(p->link.channel);
    progress_end(p->progress);
}

enum precopy_outcome precopy_run(const struct migrate_source *source,
                                 const struct migrate_links *links,
                                 const struct precopy_options *options, struct progress *progress,
                                 struct error *err)
{
    struct precopy *p = calloc(1, sizeof(*p));
    enum precopy_outcome outcome;
    int rc;

    if (!p) {
        (void)error_set(err, ENOMEM, "no memory for a migration");
        return PRECOPY_FAILED;
    }
    assert(options->chunk_pages && options->chunk_pages % PRECOPY_GRANULE_PAGES == 0);
    p->source = source;
    p->options = options;
    p->progress = progress;
    p->links = links;
    p->link.channel = links->first;
    p->copier.source = source;
    p->copier.record = &p->record;
    p->copier.progress = progress;
    progress_begin(progress)->started_ns = clock_now_ns();
    progress_end(progress);
    rc = precopy_say_hello(p, err);
    if (!rc)
        rc = offer_machine(p, err);
    if (!rc && !options->check_only)
        rc = migrate_guest(p, err);
    if (rc) {
        outcome = settle_failure(p, rc, err);
    } else if (options->check_only) {
        outcome = PRECOPY_ACCEPTED;
    } else {
        source->ops->moved(source->opaque);
        outcome = PRECOPY_COMPLETED;
        progress_set_phase(progress, PROGRESS_DONE);
    }
    account_end(p);
    /* Tear-down comes last: in every outcome the guest no longer waits for it. */
    if (p->logging)
        source->ops->log_stop(source->opaque);
    precopy_copier_free(&p->copier);
    free(p);
    return outcome;
}
