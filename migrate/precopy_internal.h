/* SPDX-License-Identifier: MIT
 *
 * One outgoing migration as its parts share it. Internal to the source's engine. */
#ifndef MIGRATE_PRECOPY_INTERNAL_H
#define MIGRATE_PRECOPY_INTERNAL_H

#include "migrate/handover.h"
#include "migrate/precopy.h"
#include "migrate/precopy_round.h"

struct precopy {
    const struct migrate_source *source;
    const struct precopy_options *options;
    struct progress *progress;
    const struct migrate_links *links;
    struct record_link link; /* stream 0 */
    struct wire_hello hello; /* ours */
    struct record record;
    struct precopy_copier copier;
    enum handover_source owner;
    struct converge_policy policy;
    struct converge_history history;
    uint64_t rounds_begin_ns;
    unsigned throttle; /* percent now */
    uint32_t round;
    uint64_t bandwidth;
    uint64_t fixed_ns;      /* pause and state, 0 = not measured */
    uint64_t round_trip_ns; /* smallest seen, 0 = not measured */
    bool logging;
    bool paused;      /* by us */
    bool was_running; /* valid while paused */
};

/* The source's sync, timed. */
int precopy_sync(struct precopy *p, uint64_t *pending_pages, struct error *err);

/* What was asked then has just been answered. HELLO's answer may have waited for the destination to
 * get ready, a round's for what the sockets held: the fastest comes closest to the round trip. */
void precopy_saw_round_trip(struct precopy *p, uint64_t begin_ns);

/* One round with its statistics. All but the last are acknowledged: nothing of them is left in a
 * socket buffer where it would delay the last one. */
int precopy_run_round(struct precopy *p, uint64_t pending_pages, bool last, struct error *err);

/* HELLO on stream 0; the session begins. */
int precopy_say_hello(struct precopy *p, struct error *err);

/* Connects the other streams, once the destination has its machine. */
int precopy_join_streams(struct precopy *p, struct error *err);

/* Pauses the guest, sends the last round and the state, and hands over. */
int precopy_switch_over(struct precopy *p, struct error *err);

#endif
