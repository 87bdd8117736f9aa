/* SPDX-License-Identifier: MIT
 *
 * Who owns the guest: the last steps of a migration as two pure state machines, one per end. At
 * most one side ever runs the guest:
 *
 *   source:      HERE --pages and state sent--> OFFERED --READY--> COMMITTED --RUNNING--> MOVED
 *                  |                               |                   |
 *                  +------------LOST---------------+--> KEPT           +--LOST--> COMMITTED (in
 * doubt)
 *
 *   destination: EMPTY --state loaded--> READY --COMMIT--> OWNER
 *                  |                        |
 *                  +---------LOST-----------+--> DISCARDED
 *
 * COMMITTED is entered before COMMIT is submitted: from then on the source cannot know whether the
 * destination runs the guest, and never resumes by itself. DISCARDED is irrevocable. */
#ifndef MIGRATE_HANDOVER_H
#define MIGRATE_HANDOVER_H

enum handover_source {
    HANDOVER_HERE,
    HANDOVER_OFFERED,
    HANDOVER_COMMITTED,
    HANDOVER_MOVED,
    HANDOVER_KEPT,
};

enum handover_destination {
    HANDOVER_EMPTY,
    HANDOVER_READY,
    HANDOVER_OWNER,
    HANDOVER_DISCARDED,
};

enum handover_event {
    HANDOVER_EVENT_SENT,    /* source: last pages and state are sent */
    HANDOVER_EVENT_READY,   /* source: READY came */
    HANDOVER_EVENT_RUNNING, /* source: RUNNING came */
    HANDOVER_EVENT_LOADED,  /* destination: state loaded, nothing fallible left */
    HANDOVER_EVENT_COMMIT,  /* destination: COMMIT came */
    HANDOVER_EVENT_LOST,    /* link lost, deadline over, error, cancelled, protocol broken */
};

/* What the caller does next; the state was already advanced. */
enum handover_action {
    HANDOVER_DO_NOTHING,
    HANDOVER_DO_SEND_COMMIT, /* source */
    HANDOVER_DO_RELEASE,     /* source: the guest lives there; never run it here */
    HANDOVER_DO_KEEP,        /* source: the guest goes on here as it was */
    HANDOVER_DO_HOLD,        /* source: in doubt: stay paused */
    HANDOVER_DO_SEND_READY,  /* destination */
    HANDOVER_DO_RUN,         /* destination: the guest is ours */
    HANDOVER_DO_DISCARD,     /* destination: close without reading on */
    HANDOVER_DO_REFUSE,      /* the event does not fit the state: treat as LOST */
};

enum handover_action handover_source_step(enum handover_source *state, enum handover_event event);
enum handover_action handover_destination_step(enum handover_destination *state,
                                               enum handover_event event);

#endif
