/* SPDX-License-Identifier: MIT */
#include "migrate/handover.h"

static enum handover_action source_lost(enum handover_source *state)
{
    switch (*state) {
    case HANDOVER_HERE:
    case HANDOVER_OFFERED:
        *state = HANDOVER_KEPT;
        return HANDOVER_DO_KEEP;
    case HANDOVER_COMMITTED:
        return HANDOVER_DO_HOLD;
    case HANDOVER_MOVED:
    case HANDOVER_KEPT:
        break;
    }
    return HANDOVER_DO_NOTHING;
}

/* What settles COMMITTED. */
static enum handover_action source_settled(enum handover_source *state, enum handover_event event)
{
    switch (event) {
    case HANDOVER_EVENT_RUNNING:
    case HANDOVER_EVENT_ANSWER_RUNNING:
    case HANDOVER_EVENT_FORCE_DESTINATION:
        *state = HANDOVER_MOVED;
        return HANDOVER_DO_RELEASE;
    case HANDOVER_EVENT_ANSWER_DISCARDED:
    case HANDOVER_EVENT_FORCE_SOURCE:
        *state = HANDOVER_KEPT;
        return HANDOVER_DO_KEEP;
    default:
        return HANDOVER_DO_REFUSE;
    }
}

enum handover_action handover_source_step(enum handover_source *state, enum handover_event event)
{
    if (event == HANDOVER_EVENT_LOST)
        return source_lost(state);
    if (*state == HANDOVER_HERE && event == HANDOVER_EVENT_SENT) {
        *state = HANDOVER_OFFERED;
        return HANDOVER_DO_NOTHING;
    }
    if (*state == HANDOVER_OFFERED && event == HANDOVER_EVENT_READY) {
        *state = HANDOVER_COMMITTED;
        return HANDOVER_DO_SEND_COMMIT;
    }
    if (*state == HANDOVER_COMMITTED)
        return source_settled(state, event);
    /* Both ways by which it can be told lead here: the second one says nothing new. */
    if (*state == HANDOVER_MOVED &&
        (event == HANDOVER_EVENT_RUNNING || event == HANDOVER_EVENT_ANSWER_RUNNING))
        return HANDOVER_DO_NOTHING;
    if (*state == HANDOVER_KEPT && event == HANDOVER_EVENT_ANSWER_DISCARDED)
        return HANDOVER_DO_NOTHING;
    return HANDOVER_DO_REFUSE;
}

static enum handover_action destination_asked(enum handover_destination state)
{
    switch (state) {
    case HANDOVER_OWNER:
        return HANDOVER_DO_ANSWER_RUNNING;
    case HANDOVER_DISCARDED:
        return HANDOVER_DO_ANSWER_DISCARDED;
    case HANDOVER_EMPTY:
    case HANDOVER_READY:
        break;
    }
    return HANDOVER_DO_WAIT; /* COMMIT may be on its way */
}

enum handover_action handover_destination_step(enum handover_destination *state,
                                               enum handover_event event)
{
    if (event == HANDOVER_EVENT_LOST) {
        if (*state == HANDOVER_OWNER || *state == HANDOVER_DISCARDED)
            return HANDOVER_DO_NOTHING;
        *state = HANDOVER_DISCARDED;
        return HANDOVER_DO_DISCARD;
    }
    if (event == HANDOVER_EVENT_ASKED)
        return destination_asked(*state);
    if (*state == HANDOVER_EMPTY && event == HANDOVER_EVENT_LOADED) {
        *state = HANDOVER_READY;
        return HANDOVER_DO_SEND_READY;
    }
    if (*state == HANDOVER_READY && event == HANDOVER_EVENT_COMMIT) {
        *state = HANDOVER_OWNER;
        return HANDOVER_DO_RUN;
    }
    return HANDOVER_DO_REFUSE;
}
