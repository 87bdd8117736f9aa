/* SPDX-License-Identifier: MIT
 *
 * When to stop copying and switch over, when to give up, and how much to slow the guest meanwhile.
 * Pure: what earlier rounds left is in a struct that the caller keeps. */
#ifndef MIGRATE_CONVERGE_H
#define MIGRATE_CONVERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first percentage of `auto`, what is added after every further round that made no progress,
 * and the most: QEMU's cpu-throttle-initial, cpu-throttle-increment and max-cpu-throttle. */
#define CONVERGE_THROTTLE_FIRST 20u
#define CONVERGE_THROTTLE_STEP  10u
#define CONVERGE_THROTTLE_MAX   99u
/* As a policy's throttle: by need. */
#define CONVERGE_THROTTLE_AUTO 100u

/* A round made progress where it left less than this share of what the round before left. */
#define CONVERGE_PROGRESS_PERCENT 75u

/* Within the limit another round is made where it would leave at most this share of what is to be
 * copied, and copying is most of the downtime; and only so many in a migration, for each may be the
 * one in which a guest that comes in bursts has one. */
#define CONVERGE_WORTH_PERCENT 50u
#define CONVERGE_WORTH_ROUNDS  4u

/* Rounds among which a local minimum is looked for. */
#define CONVERGE_RECENT_ROUNDS 4u
/* Rounds after the timeout in which CONVERGE_ON_TIMEOUT_SWITCH may wait for one. */
#define CONVERGE_LATE_ROUNDS 4u

enum converge_on_timeout {
    CONVERGE_ON_TIMEOUT_CANCEL, /* give up: the guest stays */
    CONVERGE_ON_TIMEOUT_SWITCH, /* switch over whatever the downtime, at a good moment */
};

/* What the user wants. */
struct converge_policy {
    uint64_t limit_ns;   /* the downtime that is allowed */
    uint64_t timeout_ns; /* 0 = none */
    enum converge_on_timeout on_timeout;
    unsigned throttle; /* percent of time taken from vCPUs from round 1 on, 0…99, or AUTO */
};

/* What the last round and sync found. */
struct converge_input {
    uint64_t pending_bytes; /* what the last sync found dirty */
    uint64_t bandwidth;     /* bytes/s that the link carried recently; 0 = not known yet */
    uint64_t fixed_ns;   /* pause, state and handover: measured, does not depend on pending_bytes */
    uint64_t elapsed_ns; /* since the migration began */
    uint64_t dirty_rate; /* pages/s in the last round */
};

/* What rounds left so far; all zero before the first. */
struct converge_history {
    uint64_t pending_bytes[CONVERGE_RECENT_ROUNDS]; /* round r at r % CONVERGE_RECENT_ROUNDS */
    uint64_t nrounds;
    unsigned late_rounds;  /* that ended after the timeout */
    unsigned worth_rounds; /* that were made within the limit */
    unsigned throttle;     /* percent now */
};

enum converge_decision {
    CONVERGE_ANOTHER_ROUND,
    CONVERGE_SWITCH_OVER,
    CONVERGE_GIVE_UP,
};

enum converge_reason {
    CONVERGE_WITHIN_LIMIT,
    CONVERGE_WORTH_A_ROUND,   /* within the limit, and a short round makes it much shorter */
    CONVERGE_NOTHING_PENDING, /* another round could not make it shorter */
    CONVERGE_OVER_LIMIT,
    CONVERGE_TIMED_OUT,
    CONVERGE_AWAIT_MINIMUM, /* timed out, but an earlier round left less, or none can be compared */
    CONVERGE_LOCAL_MINIMUM, /* timed out, and no recent round left less */
    CONVERGE_WAITED_ENOUGH, /* timed out CONVERGE_LATE_ROUNDS ago */
};

struct converge_verdict {
    enum converge_decision decision;
    enum converge_reason reason;
    unsigned throttle; /* percent from now on; meaningful for another round only */
    uint64_t predicted_ns;
};

/* Fixed cost plus what the pending bytes need at this bandwidth; UINT64_MAX where it cannot be
 * told. */
uint64_t converge_predict_ns(const struct converge_input *input);

/* Pages/s, of what a round of so long left. */
uint64_t converge_dirty_rate(uint64_t pending_pages, uint64_t round_ns);

/* The timeout has come, and the policy is to give up then: also in the middle of a round. */
bool converge_must_give_up(const struct converge_policy *policy, uint64_t elapsed_ns);

/* After a complete round: decides, and notes in the history what this one left. */
struct converge_verdict converge_decide(const struct converge_policy *policy,
                                        const struct converge_input *input,
                                        struct converge_history *history);

/* The verdict with its numbers, one line without the round's; returns text. CONVERGE_TEXT_BYTES are
 * enough. */
#define CONVERGE_TEXT_BYTES 256
const char *converge_explain(const struct converge_policy *policy,
                             const struct converge_input *input,
                             const struct converge_verdict *verdict, char *text, size_t text_bytes);

/* "auto", or a number from 0 to 99; -EINVAL for anything else. */
struct error;
int converge_throttle_parse(const char *text, unsigned *throttle, struct error *err);
/* "cancel" or "switch". */
int converge_on_timeout_parse(const char *text, enum converge_on_timeout *on_timeout,
                              struct error *err);
const char *converge_on_timeout_name(enum converge_on_timeout on_timeout);

#endif
