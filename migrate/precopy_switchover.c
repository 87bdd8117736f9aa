/* SPDX-License-Identifier: MIT
 *
 * From the pause to the destination's RUNNING: the only time in which the guest runs nowhere. */
#include <errno.h>
#include <stdlib.h>

#include "migrate/precopy_internal.h"
#include "vmm/base/clock.h"

static int pause_guest(struct precopy *p, struct error *err)
{
    int rc;

    progress_set_phase(p->progress, PROGRESS_PAUSE);
    progress_begin(p->progress)->paused_ns = clock_now_ns();
    progress_end(p->progress);
    rc = p->source->ops->pause(p->source->opaque, true, &p->was_running, err);
    if (!rc)
        p->paused = true;
    return rc;
}

static int send_last_round_and_state(struct precopy *p, struct error *err)
{
    const struct migrate_source *source = p->source;
    struct wire_header header = {.type = WIRE_STATE, .round = ++p->round};
    void *state = NULL;
    size_t state_bytes = 0;
    uint64_t pending;
    int rc;

    progress_set_phase(p->progress, PROGRESS_FINAL);
    /* Saving may write guest memory: it comes before the last sync. */
    rc = source->ops->save(source->opaque, &state, &state_bytes, err);
    if (!rc)
        rc = precopy_sync(p, &pending, err);
    if (!rc)
        rc = precopy_run_round(p, pending, true, err);
    if (!rc) {
        progress_set_phase(p->progress, PROGRESS_STATE);
        rc = record_send(&p->link, &header, NULL, 0, state, state_bytes, err);
    }
    free(state);
    return rc;
}

/* Advances the state machine, which alone says what may be done. */
static int advance(struct precopy *p, enum handover_event event, enum handover_action expected,
                   struct error *err)
{
    if (handover_source_step(&p->owner, event) != expected)
        return error_set(err, EPROTO, "the handover is out of order");
    return 0;
}

/* From READY to RUNNING. */
static int hand_over(struct precopy *p, struct error *err)
{
    struct wire_header commit = {
        .type = WIRE_COMMIT, .round = p->round, .flags = p->was_running ? WIRE_FLAG_RUN : 0};
    struct progress_view *view;
    int rc = advance(p, HANDOVER_EVENT_SENT, HANDOVER_DO_NOTHING, err);

    progress_set_phase(p->progress, PROGRESS_READY);
    if (!rc)
        rc = record_expect(&p->link, WIRE_READY, p->round, &p->record, err);
    if (rc)
        return rc;
    /* A cancellation that comes from here on is too late; one that came before ends it here. */
    rc = channel_wait_readable(p->link.channel, 0, err);
    if (rc > 0) {
        rc = record_receive(&p->link, &p->record, err);
        if (!rc)
            rc = error_set(err, EPROTO, "the destination spoke after READY");
    }
    if (rc)
        return rc;
    channel_forget_cancel(p->link.channel);
    rc = advance(p, HANDOVER_EVENT_READY, HANDOVER_DO_SEND_COMMIT, err);
    progress_set_phase(p->progress, PROGRESS_COMMIT);
    if (!rc)
        rc = record_send(&p->link, &commit, NULL, 0, NULL, 0, err);
    if (!rc)
        rc = record_expect(&p->link, WIRE_RUNNING, p->round, &p->record, err);
    if (!rc && p->record.header.meta_bytes != sizeof(uint64_t))
        rc = error_set(err, EPROTO, "RUNNING without the time of the resume");
    if (!rc)
        rc = advance(p, HANDOVER_EVENT_RUNNING, HANDOVER_DO_RELEASE, err);
    if (rc)
        return rc;
    view = progress_begin(p->progress);
    view->running_ns = clock_now_ns();
    view->resumed_at_ns = wire_get_u64(p->record.meta);
    progress_end(p->progress);
    return 0;
}

int precopy_switch_over(struct precopy *p, struct error *err)
{
    int rc = pause_guest(p, err);

    if (!rc)
        rc = send_last_round_and_state(p, err);
    return rc ? rc : hand_over(p, err);
}
