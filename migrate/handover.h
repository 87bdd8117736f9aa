/* SPDX-License-Identifier: MIT
 *
 * Who owns the guest: the last steps of a migration, and what settles them when they break off, as
 * two pure state machines, one per end. At most one side ever runs the guest:
 *
 *   source:      HERE --SENT--> OFFERED --READY--> COMMITTED --RUNNING, ANSWER_RUNNING--> MOVED
 *                  |              |                 |    |
 *                  +-----LOST-----+--> KEPT <-------+    +--LOST--> COMMITTED (in doubt)
 *                                       ANSWER_DISCARDED
 *
 *   destination: EMPTY --LOADED--> READY --COMMIT--> OWNER     answers RUNNING
 *                  |                 |
 *                  +------LOST-------+--> DISCARDED            answers DISCARDED
 *
 * COMMITTED is entered before COMMIT is submitted: from then on the source cannot know whether the
 * destination runs the guest, and never resumes by itself. OWNER and DISCARDED are irrevocable, and
 * only they are answered with: a destination that is asked earlier becomes one of them first.
 * tests/model/handover.def is the whole table, for the model and for the tests of this code. */
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
    HANDOVER_EVENT_SENT,           /* source: last pages and state are sent */
    HANDOVER_EVENT_READY,          /* source: READY came */
    HANDOVER_EVENT_RUNNING,        /* source: RUNNING came */
    HANDOVER_EVENT_LOADED,         /* destination: state loaded, nothing fallible left */
    HANDOVER_EVENT_COMMIT,         /* destination: COMMIT came */
    HANDOVER_EVENT_LOST,           /* link lost, deadline over, error, cancelled, protocol broken */
    HANDOVER_EVENT_ASKED,          /* destination: a source in doubt asks who owns the guest */
    HANDOVER_EVENT_ANSWER_RUNNING, /* source: the destination owns it */
    HANDOVER_EVENT_ANSWER_DISCARDED,  /* source: it never will */
    HANDOVER_EVENT_FORCE_SOURCE,      /* source: its user looked, and says that it does not */
    HANDOVER_EVENT_FORCE_DESTINATION, /* source: its user looked, and says that it does */
};

/* What the caller does next; the state was already advanced. */
enum handover_action {
    HANDOVER_DO_NOTHING,
    HANDOVER_DO_SEND_COMMIT,      /* source */
    HANDOVER_DO_RELEASE,          /* source: the guest lives there; never run it here */
    HANDOVER_DO_KEEP,             /* source: the guest goes on here as it was */
    HANDOVER_DO_HOLD,             /* source: in doubt: stay paused */
    HANDOVER_DO_SEND_READY,       /* destination */
    HANDOVER_DO_RUN,              /* destination: the guest is ours */
    HANDOVER_DO_DISCARD,          /* destination: close without reading on */
    HANDOVER_DO_WAIT,             /* destination: answer once it is OWNER or DISCARDED */
    HANDOVER_DO_ANSWER_RUNNING,   /* destination */
    HANDOVER_DO_ANSWER_DISCARDED, /* destination */
    HANDOVER_DO_REFUSE,           /* the event does not fit the state: treat as LOST */
};

enum handover_action handover_source_step(enum handover_source *state, enum handover_event event);
enum handover_action handover_destination_step(enum handover_destination *state,
                                               enum handover_event event);

#endif
