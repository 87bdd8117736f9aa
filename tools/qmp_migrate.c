/* SPDX-License-Identifier: MIT
 *
 * Field names are QEMU's (qapi/migration.json); times there are milliseconds, so ours stand beside
 * them in nanoseconds under "x-pageferry". */
#include "tools/qmp_migrate.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/json_text.h"
#include "tools/migration_figures.h"
#include "vmm/base/clock.h"

json_t *qmp_migrate(struct server *server, json_t *arguments, struct error *err)
{
    const char *uri = json_string_value(json_object_get(arguments, "uri"));
    const json_t *check = json_object_get(arguments, "x-check");
    const json_t *record = json_object_get(arguments, "x-record-dirty");
    const json_t *stop = json_object_get(arguments, "x-stop");
    struct migration_request request = {.uri = uri,
                                        .given_fd = -1,
                                        .check_only = json_is_true(check),
                                        .stop = json_is_true(stop),
                                        .record_path = json_string_value(record)};

    if (!uri) {
        (void)error_set(err, EINVAL, "migrate needs \"uri\"");
        return NULL;
    }
    if (check && !json_is_boolean(check)) {
        (void)error_set(err, EINVAL, "\"x-check\" must be true or false");
        return NULL;
    }
    if (stop && !json_is_boolean(stop)) {
        (void)error_set(err, EINVAL, "\"x-stop\" must be true or false");
        return NULL;
    }
    if (record && !(request.record_path && *request.record_path)) {
        (void)error_set(err, EINVAL, "\"x-record-dirty\" must be a file's name");
        return NULL;
    }
    if (strncmp(uri, "fd:", 3) == 0)
        request.given_fd = control_take_fd(&server->control, uri + 3);
    if (migration_start(&server->migration, &request, err))
        return NULL;
    server->events = (struct migration_events){.passes = 0};
    if (!request.check_only) {
        control_event(&server->control, "MIGRATION", json_pack("{s:s}", "status", "setup"));
    }
    return json_object();
}

json_t *qmp_migrate_cancel(struct server *server, json_t *arguments, struct error *err)
{
    (void)arguments;
    (void)err;
    migration_cancel(&server->migration);
    return json_object();
}

json_t *qmp_resolve(struct server *server, json_t *arguments, struct error *err)
{
    const char *owner = json_string_value(json_object_get(arguments, "owner"));
    const json_t *force = json_object_get(arguments, "force");
    bool source = owner && strcmp(owner, "source") == 0;
    bool was_in_doubt = server->host.in_doubt;
    int rc;

    if (!owner || (!source && strcmp(owner, "destination") != 0)) {
        (void)error_set(err, EINVAL, "write owner=source or owner=destination");
        return NULL;
    }
    if (force && !json_is_boolean(force)) {
        (void)error_set(err, EINVAL, "\"force\" must be true or false");
        return NULL;
    }
    rc = migration_resolve(&server->migration, source, json_is_true(force), err);
    /* Also where a late RUNNING settled it otherwise. */
    if (was_in_doubt && server->migration.outcome != PRECOPY_IN_DOUBT)
        server_migration_settled(server);
    return rc ? NULL : json_object();
}

/* QEMU's status names. */
static const char *status_name(const struct migration *migration, const struct progress_view *view)
{
    switch (migration->state) {
    case MIGRATION_NONE:
        return "none";
    case MIGRATION_UNDER_WAY:
        if (migration->cancel_asked && view->phase < PROGRESS_COMMIT)
            return "cancelling";
        if (view->phase < PROGRESS_ROUNDS)
            return "setup";
        return view->phase == PROGRESS_ROUNDS ? "active" : "device";
    case MIGRATION_ENDED:
        break;
    }
    switch (migration->outcome) {
    case PRECOPY_COMPLETED:
        return "completed";
    case PRECOPY_ACCEPTED:
        return "none"; /* nothing moved: x-pageferry has the answer */
    case PRECOPY_CANCELLED:
        return "cancelled";
    case PRECOPY_FAILED:
    case PRECOPY_IN_DOUBT:
        break;
    }
    return "failed";
}

static json_t *rounds_json(const struct progress_view *view)
{
    uint64_t kept = view->nrounds < PROGRESS_MAX_ROUNDS ? view->nrounds : PROGRESS_MAX_ROUNDS;
    json_t *rounds = json_array();

    for (uint64_t r = view->nrounds - kept; r < view->nrounds; r++) {
        const struct progress_round *round = &view->rounds[r % PROGRESS_MAX_ROUNDS];

        (void)json_array_append_new(
            rounds,
            json_pack("{s:I, s:I, s:I, s:I, s:I}", "round", (json_int_t)r, "dirty_pages",
                      (json_int_t)round->dirty_pages, "zero_pages", (json_int_t)round->zero_pages,
                      "sent_bytes", (json_int_t)round->sent_bytes, "ns", (json_int_t)round->ns));
    }
    return rounds;
}

static uint64_t end_of(const struct progress_view *view)
{
    return view->running_ns ? view->running_ns : view->ended_ns ? view->ended_ns : clock_now_ns();
}

static uint64_t since(uint64_t begin, uint64_t end)
{
    return begin && end > begin ? end - begin : 0;
}

static json_t *own_json(const struct migration *migration, const struct progress_view *view)
{
    uint64_t end = end_of(view);
    uint64_t copy_ns = since(view->rounds_started_ns, end);
    double bandwidth =
        copy_ns ? (double)view->sent_bytes / (double)copy_ns * (double)CLOCK_NS_PER_SEC : 0;
    const char *outcome = migration->state == MIGRATION_ENDED
                              ? migration_outcome_name(migration->outcome)
                              : "under-way";
    /* Downtime only where the guest really changed hosts. */
    bool moved = migration->state == MIGRATION_ENDED && migration->outcome == PRECOPY_COMPLETED;

    return json_pack(
        "{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
        "outcome", outcome, "dirty_log",
        dirty_log_backend_name(
            __atomic_load_n(&migration->binding.log_options.backend, __ATOMIC_RELAXED)),
        "ring_full_exits",
        (json_int_t)__atomic_load_n(&migration->binding.ring_full_exits, __ATOMIC_RELAXED), "phase",
        progress_phase_name(view->phase), "round",
        (json_int_t)(view->nrounds ? view->nrounds - 1 : 0), "total_ns",
        (json_int_t)since(view->started_ns, end), "setup_ns",
        (json_int_t)since(view->started_ns, view->rounds_started_ns), "downtime_ns",
        (json_int_t)(moved ? since(view->paused_ns, view->running_ns) : 0), "predicted_downtime_ns",
        (json_int_t)(view->predicted_downtime_ns >> 63 ? 0 : view->predicted_downtime_ns),
        "resumed_at_ns", (json_int_t)view->resumed_at_ns, "bytes_sent",
        (json_int_t)view->sent_bytes, "remaining_bytes", (json_int_t)view->remaining_bytes,
        "bandwidth_bytes_per_s", (json_int_t)bandwidth, "recent_bandwidth_bytes_per_s",
        (json_int_t)view->bandwidth, "dirty_pages_per_s", (json_int_t)view->dirty_rate,
        "memory_bytes", (json_int_t)view->total_bytes, "rounds", rounds_json(view));
}

/* Valid once the migration has ended. */
static json_t *recording_json(const struct binding_recorder *recorder)
{
    json_t *recording = json_pack("{s:o, s:I}", "path", json_text(recorder->path), "rounds",
                                  (json_int_t)recorder->rounds);

    if (recorder->err.text[0])
        (void)json_object_set_new(recording, "error", json_text(recorder->err.text));
    return recording;
}

static json_t *ram_json(const struct progress_view *view)
{
    uint64_t data_bytes = view->data_pages * MIGRATE_PAGE_BYTES;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I}", "transferred",
        (json_int_t)view->sent_bytes, "remaining", (json_int_t)view->remaining_bytes, "total",
        (json_int_t)view->total_bytes, "duplicate", (json_int_t)view->zero_pages, "normal",
        (json_int_t)view->data_pages, "normal-bytes", (json_int_t)data_bytes, "mbps",
        (double)view->bandwidth * 8 / 1e6, "dirty-pages-rate", (json_int_t)view->dirty_rate,
        "dirty-sync-count", (json_int_t)view->nrounds, "page-size", (json_int_t)MIGRATE_PAGE_BYTES);
}

json_t *qmp_query_migrate(struct server *server, json_t *arguments, struct error *err)
{
    struct migration *migration = &server->migration;
    struct progress_view view;
    const char *status;
    json_t *reply;

    (void)arguments;
    (void)err;
    if (migration->state == MIGRATION_NONE)
        return json_object();
    progress_get(&migration->progress, &view);
    status = status_name(migration, &view);
    reply = json_pack(
        "{s:s, s:I, s:I, s:o, s:o}", "status", status, "total-time",
        (json_int_t)(since(view.started_ns, end_of(&view)) / CLOCK_NS_PER_MS), "setup-time",
        (json_int_t)(since(view.started_ns, view.rounds_started_ns) / CLOCK_NS_PER_MS), "ram",
        ram_json(&view), "x-pageferry", own_json(migration, &view));
    if (migration->state == MIGRATION_ENDED && view.streams)
        migration_figures(json_object_get(reply, "x-pageferry"), &view);
    if (migration->state == MIGRATION_ENDED && migration->binding.recorder.path)
        (void)json_object_set_new(json_object_get(reply, "x-pageferry"), "recording",
                                  recording_json(&migration->binding.recorder));
    (void)json_object_set_new(json_object_get(reply, "x-pageferry"), "throttle_percent",
                              json_integer((json_int_t)view.throttle));
    if (view.throttle)
        (void)json_object_set_new(reply, "cpu-throttle-percentage",
                                  json_integer((json_int_t)view.throttle));
    if (migration->state == MIGRATION_UNDER_WAY && !(view.predicted_downtime_ns >> 63))
        (void)json_object_set_new(
            reply, "expected-downtime",
            json_integer((json_int_t)(view.predicted_downtime_ns / CLOCK_NS_PER_MS)));
    if (strcmp(status, "completed") == 0)
        (void)json_object_set_new(
            reply, "downtime",
            json_integer((json_int_t)(since(view.paused_ns, view.running_ns) / CLOCK_NS_PER_MS)));
    if (migration->state == MIGRATION_ENDED && migration->err.text[0] &&
        strcmp(status, "completed") != 0)
        (void)json_object_set_new(reply, "error-desc", json_text(migration->err.text));
    return reply;
}
