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
    if (*state == HANDOVER_COMMITTED && event == HANDOVER_EVENT_RUNNING) {
        *state = HANDOVER_MOVED;
        return HANDOVER_DO_RELEASE;
    }
    return HANDOVER_DO_REFUSE;
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
