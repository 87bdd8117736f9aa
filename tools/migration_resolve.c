/* SPDX-License-Identifier: MIT
 *
 * How a migration in doubt ends: by a RUNNING that came late, or by its user, who is held to what
 * the destination says. */
#include <errno.h>

#include "tools/migration.h"
#include "vmm/base/log.h"

/* Advances the state machine and does what it says. */
static int settle(struct migration *migration, enum handover_event event, struct error *err)
{
    struct doubt *doubt = &migration->doubt;
    enum handover_source owner = doubt->of.owner;
    int rc = 0;

    switch (handover_source_step(&owner, event)) {
    case HANDOVER_DO_RELEASE:
        vm_host_engine_moved(migration->host);
        migration->outcome = PRECOPY_COMPLETED;
        progress_set_phase(&migration->progress, PROGRESS_DONE);
        log_info("the guest has moved to %s", migration->uri_text);
        machine_release(migration->host->machine);
        break;
    case HANDOVER_DO_KEEP:
        rc = vm_host_take_back(migration->host, doubt->of.was_running, err);
        if (rc)
            return rc;
        migration->outcome = PRECOPY_FAILED;
        log_info("the guest stays here: the migration to %s failed", migration->uri_text);
        break;
    default:
        return error_set(err, EPROTO, "the handover is out of order");
    }
    doubt->of.owner = owner;
    doubt_end(doubt);
    return rc;
}

/* The event that the destination's answer and the user's word come to. */
static int judge(const struct migration *migration, bool owner_is_source, bool force,
                 enum handover_event *event, struct error *err)
{
    enum wire_answer answer = WIRE_ANSWER_UNKNOWN;
    struct error why = {.text = "it does not know of this migration"};

    (void)doubt_ask(&migration->doubt, &migration->uri, &answer, &why);
    if (answer == WIRE_ANSWER_RUNNING && owner_is_source)
        return error_set(err, EPERM,
                         "the destination says that it took the guest over: only "
                         "owner=destination can be");
    if (answer == WIRE_ANSWER_DISCARDED && !owner_is_source)
        return error_set(err, EPERM,
                         "the destination says that it discarded the guest: only owner=source "
                         "can be");
    if (answer == WIRE_ANSWER_UNKNOWN && !force)
        return error_set(err, EPERM,
                         "the destination cannot be asked (%s): look there, and say force=true "
                         "where you are sure%s",
                         why.text, owner_is_source ? " that it does not run the guest" : "");
    if (answer == WIRE_ANSWER_UNKNOWN)
        *event = owner_is_source ? HANDOVER_EVENT_FORCE_SOURCE : HANDOVER_EVENT_FORCE_DESTINATION;
    else
        *event = answer == WIRE_ANSWER_RUNNING ? HANDOVER_EVENT_ANSWER_RUNNING
                                               : HANDOVER_EVENT_ANSWER_DISCARDED;
    return 0;
}

static bool in_doubt(const struct migration *migration)
{
    return migration->state == MIGRATION_ENDED && migration->outcome == PRECOPY_IN_DOUBT &&
           !migration->running_options.check_only;
}

int migration_resolve(struct migration *migration, bool owner_is_source, bool force,
                      struct error *err)
{
    enum handover_event event = HANDOVER_EVENT_RUNNING;
    int rc = 0;

    if (!in_doubt(migration))
        return error_set(err, EINVAL, "no migration is in doubt");
    if (doubt_stop_listening(&migration->doubt)) {
        if (owner_is_source)
            rc = error_set(err, EPERM, "the destination has just said that it runs the guest");
        return settle(migration, event, err) ? -EPROTO : rc;
    }
    rc = judge(migration, owner_is_source, force, &event, err);
    if (!rc)
        rc = settle(migration, event, err);
    if (rc)
        doubt_listen(&migration->doubt);
    return rc;
}

bool migration_heard(struct migration *migration)
{
    struct error err = {.text = ""};

    if (!in_doubt(migration) || !doubt_stop_listening(&migration->doubt))
        return false;
    if (settle(migration, HANDOVER_EVENT_RUNNING, &err)) {
        log_error("%s", err.text);
        return false;
    }
    return true;
}
