/* SPDX-License-Identifier: MIT
 *
 * When to stop copying and switch over. Pure. */
#ifndef MIGRATE_CONVERGE_H
#define MIGRATE_CONVERGE_H

#include <stdbool.h>
#include <stdint.h>

struct converge_input {
    uint64_t pending_bytes; /* what the last sync found dirty */
    uint64_t bandwidth;     /* bytes/s that the link carried recently; 0 = not known yet */
    uint64_t fixed_ns; /* pause, state and handover: measured, does not depend on pending_bytes */
    uint64_t limit_ns; /* the downtime the user allows */
};

enum converge_decision {
    CONVERGE_ANOTHER_ROUND,
    CONVERGE_SWITCH_OVER,
};

/* Fixed cost plus what the pending bytes need at this bandwidth; UINT64_MAX where it cannot be
 * told. */
uint64_t converge_predict_ns(const struct converge_input *input);

/* Switches over where the prediction is within the limit, or where nothing is pending: another
 * round could not make it shorter. */
enum converge_decision converge_decide(const struct converge_input *input);

#endif
