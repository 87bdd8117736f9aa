/* SPDX-License-Identifier: MIT
 *
 * What clients are told of a migration while it is under way, as QEMU tells it: MIGRATION for each
 * status, MIGRATION_PASS for each round. The control thread. */
#ifndef TOOLS_MIGRATION_EVENTS_H
#define TOOLS_MIGRATION_EVENTS_H

#include "migrate/progress.h"
#include "tools/control.h"

struct migration_events {
    enum progress_phase told; /* the last phase that made a status */
    uint64_t passes;          /* rounds that were told */
};

/* Tells what is new in the view. Statuses that were passed through unseen are told all the same. */
void migration_events_tell(struct migration_events *events, const struct progress_view *view,
                           struct control *control);

#endif
