/* SPDX-License-Identifier: MIT */
#include "tools/migration_events.h"

static void tell_status(struct control *control, const char *status)
{
    control_event(control, "MIGRATION", json_pack("{s:s}", "status", status));
}

/* Every round has its event, however many ended since the last look. */
static void tell_passes(struct migration_events *events, const struct progress_view *view,
                        struct control *control)
{
    while (events->passes < view->nrounds) {
        events->passes++;
        control_event(control, "MIGRATION_PASS",
                      json_pack("{s:I}", "pass", (json_int_t)events->passes));
    }
}

void migration_events_tell(struct migration_events *events, const struct progress_view *view,
                           struct control *control)
{
    if (events->told < PROGRESS_ROUNDS && view->phase >= PROGRESS_ROUNDS)
        tell_status(control, "active");
    tell_passes(events, view, control);
    if (events->told < PROGRESS_PAUSE && view->phase >= PROGRESS_PAUSE)
        tell_status(control, "device");
    if (view->phase > events->told)
        events->told = view->phase;
}
