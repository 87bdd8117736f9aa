/* SPDX-License-Identifier: MIT */
#include "migrate/snapshot_save.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/snapshot_internal.h"
#include "migrate/wire.h"
#include "vmm/base/clock.h"
#include "vmm/base/size.h"

/* The file is behind the page cache, which takes bursts faster than the disk: a short sample may
 * only raise the estimate. */
#define BANDWIDTH_SAMPLE_BYTES (4ull * 1024 * 1024)

static int describe(struct saver *s, struct error *err)
{
    const struct migrate_source *source = s->source;
    struct migrate_layout layout = {.nregions = 0};
    uint64_t total = 0;
    int rc;

    progress_set_phase(s->progress, PROGRESS_MACHINE);
    rc = source->ops->describe(source->opaque, &s->tree, &s->tree_bytes, &layout, err);
    if (!rc)
        rc = snapshot_pages_init(&s->pages, &s->file, &layout, err);
    if (!rc)
        rc = saver_copy_init(s, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < layout.nregions; i++)
        total += layout.region[i].npages * MIGRATE_PAGE_BYTES;
    progress_begin(s->progress)->total_bytes = total;
    progress_end(s->progress);
    return 0;
}

/* Not `last` where the guest soon goes on: whoever wants to stop or continue it waits for that. */
static int pause_guest(struct saver *s, bool last, struct error *err)
{
    int rc = s->source->ops->pause(s->source->opaque, last, &s->was_running, err);

    s->paused = rc == 0;
    return rc;
}

static int resume_guest(struct saver *s, bool run, struct error *err)
{
    s->paused = false;
    return s->source->ops->resume(s->source->opaque, run, err);
}

/* What the pause costs whatever the last round's size. */
static int measure_fixed_cost(struct saver *s, struct error *err)
{
    uint64_t begin = clock_now_ns();
    void *state = NULL;
    size_t state_bytes;
    int rc = pause_guest(s, false, err);
    int resumed;

    if (rc)
        return rc;
    rc = s->source->ops->save(s->source->opaque, &state, &state_bytes, err);
    s->fixed_ns = clock_now_ns() - begin;
    free(state);
    resumed = resume_guest(s, s->was_running, err);
    return rc ? rc : resumed;
}

static void show_prediction(struct saver *s, uint64_t pending, uint64_t predicted_ns,
                            uint64_t dirty_rate)
{
    struct progress_view *view = progress_begin(s->progress);

    view->remaining_bytes = pending * MIGRATE_PAGE_BYTES;
    view->predicted_downtime_ns = predicted_ns;
    view->dirty_rate = dirty_rate;
    progress_end(s->progress);
}

/* One round; its statistics tell how fast the file takes pages. */
static int run_round(struct saver *s, uint64_t pending, struct error *err)
{
    uint64_t before = s->pages.written_bytes, begin = clock_now_ns();
    uint64_t bytes, sample, ns;
    struct progress_view *view = progress_begin(s->progress);
    int rc;

    view->nrounds = (uint64_t)s->round + 1;
    view->remaining_bytes = pending * MIGRATE_PAGE_BYTES;
    memset(&view->rounds[s->round % PROGRESS_MAX_ROUNDS], 0, sizeof(view->rounds[0]));
    progress_end(s->progress);
    progress_notify(s->progress);
    rc = saver_copy_round(s, err);
    ns = clock_now_ns() - begin;
    bytes = s->pages.written_bytes - before;
    sample = (uint64_t)((double)bytes / (double)(ns ? ns : 1) * (double)CLOCK_NS_PER_SEC);
    if (bytes >= BANDWIDTH_SAMPLE_BYTES || sample > s->bandwidth)
        s->bandwidth = sample;
    view = progress_begin(s->progress);
    view->rounds[s->round % PROGRESS_MAX_ROUNDS].ns = ns;
    view->rounds[s->round % PROGRESS_MAX_ROUNDS].sent_bytes = bytes;
    view->remaining_bytes = 0;
    view->bandwidth = s->bandwidth;
    progress_end(s->progress);
    return rc;
}

static int timed_out(const struct saver *s, struct error *err)
{
    char after[16];

    return error_set(err, ETIMEDOUT, "the timeout of %s is over: the guest did not stand still",
                     size_format_duration(s->policy.timeout_ns, after, sizeof(after)));
}

static int copy_rounds(struct saver *s, struct error *err)
{
    const struct migrate_source *source = s->source;
    uint64_t pending = 0;
    int rc;

    for (unsigned i = 0; i < s->pages.layout.nregions; i++)
        pending += s->pages.layout.region[i].npages;
    s->rounds_begin_ns = clock_now_ns();
    s->policy = (struct converge_policy){.limit_ns = s->options->copy.downtime_limit_ns,
                                         .timeout_ns = s->options->copy.timeout_ns,
                                         .on_timeout = s->options->copy.on_timeout};
    progress_begin(s->progress)->rounds_started_ns = s->rounds_begin_ns;
    progress_end(s->progress);
    progress_set_phase(s->progress, PROGRESS_ROUNDS);
    for (;; s->round++) {
        struct converge_input input = {.fixed_ns = 0};
        struct converge_verdict verdict;
        uint64_t begin = clock_now_ns();

        rc = run_round(s, pending, err);
        if (!rc)
            rc = source->ops->sync(source->opaque, &pending, err);
        if (!rc && s->round == 0)
            rc = measure_fixed_cost(s, err);
        if (rc)
            return rc;
        input.pending_bytes = pending * MIGRATE_PAGE_BYTES;
        input.bandwidth = s->bandwidth;
        input.fixed_ns = s->fixed_ns;
        input.elapsed_ns = clock_now_ns() - s->rounds_begin_ns;
        input.dirty_rate = converge_dirty_rate(pending, clock_now_ns() - begin);
        verdict = converge_decide(&s->policy, &input, &s->history);
        show_prediction(s, pending, verdict.predicted_ns, input.dirty_rate);
        if (verdict.decision == CONVERGE_GIVE_UP)
            return timed_out(s, err);
        if (verdict.decision == CONVERGE_SWITCH_OVER) {
            s->policy.timeout_ns = 0; /* from here on it ends by itself */
            return 0;
        }
        if (s->round == UINT32_MAX - 1)
            return error_set(err, EOVERFLOW, "the guest did not converge in 2^32 rounds");
    }
}

/* The only time in which the guest stands still. */
static int save_paused(struct saver *s, struct error *err)
{
    const struct migrate_source *source = s->source;
    struct progress_view *view;
    uint64_t pending;
    int rc;

    progress_set_phase(s->progress, PROGRESS_PAUSE);
    progress_begin(s->progress)->paused_ns = clock_now_ns();
    progress_end(s->progress);
    rc = pause_guest(s, s->options->stop, err);
    if (rc)
        return rc;
    progress_set_phase(s->progress, PROGRESS_FINAL);
    /* Saving may write guest memory: it comes before the last sync. */
    rc = source->ops->save(source->opaque, &s->state, &s->state_bytes, err);
    if (!rc)
        rc = source->ops->sync(source->opaque, &pending, err);
    s->round++;
    if (!rc)
        rc = run_round(s, pending, err);
    /* Held on for `stop`: a failure while the file is finished lets it go on. */
    if (!rc && !s->options->stop)
        rc = resume_guest(s, s->was_running, err);
    if (rc)
        return rc;
    view = progress_begin(s->progress);
    view->running_ns = clock_now_ns();
    view->resumed_at_ns = view->running_ns;
    progress_end(s->progress);
    return 0;
}

static void stop_logging(struct saver *s)
{
    if (s->logging)
        s->source->ops->log_stop(s->source->opaque);
    s->logging = false;
}

static int write_record(struct saver *s, enum wire_type type, uint64_t sequence,
                        const void *payload, size_t length, uint64_t *offset, struct error *err)
{
    struct wire_header header = {.type = (uint16_t)type,
                                 .flags = WIRE_FLAG_PAYLOAD_HASH,
                                 .sequence = sequence,
                                 .payload_bytes = length,
                                 .payload_hash = wire_hash(payload, length)};
    uint8_t bytes[WIRE_HEADER_BYTES];
    int rc;

    wire_put_header(bytes, &header, NULL);
    rc = snapshot_file_write(&s->file, bytes, sizeof(bytes), *offset, err);
    *offset += sizeof(bytes);
    if (!rc)
        rc = snapshot_file_write(&s->file, payload, length, *offset, err);
    *offset += length;
    s->pages.written_bytes += sizeof(bytes) + length;
    return rc;
}

/* The guest that was saved may end meanwhile, which interrupts whoever copies it: no reason to give
 * up what is complete. */
static int look_while_finishing(void *opaque, struct error *err)
{
    struct saver *s = opaque;
    struct error ended = {.text = ""};
    int rc = saver_look(s, err);

    if (rc == -ECANCELED && s->source->ops->alive(s->source->opaque, &ended))
        return 0;
    return rc;
}

/* Everything that nobody has to wait for in the pause. */
static int finish_file(struct saver *s, struct error *err)
{
    struct snapshot_header *header = &s->pages.header;
    uint8_t bytes[SNAPSHOT_HEADER_BYTES];
    uint64_t offset = header->records_offset;
    int rc;

    progress_set_phase(s->progress, PROGRESS_STATE);
    rc = write_record(s, WIRE_MACHINE, 0, s->tree, s->tree_bytes, &offset, err);
    if (!rc)
        rc = write_record(s, WIRE_STATE, 1, s->state, s->state_bytes, &offset, err);
    if (!rc)
        rc = snapshot_pages_write_map(&s->pages, look_while_finishing, s, err);
    if (rc)
        return rc;
    header->flags = s->was_running ? SNAPSHOT_FLAG_RUN : 0;
    header->records_bytes = offset - header->records_offset;
    header->file_bytes = offset;
    snapshot_put_header(bytes, header);
    rc = snapshot_file_write(&s->file, bytes, sizeof(bytes), 0, err);
    if (!rc)
        rc = look_while_finishing(s, err); /* the last moment */
    s->pages.written_bytes += sizeof(bytes);
    return rc ? rc : snapshot_file_commit(&s->file, err);
}

static int save(struct saver *s, const char *path, struct error *err)
{
    int rc = snapshot_file_create(&s->file, path, err);

    if (!rc)
        rc = describe(s, err);
    if (!rc)
        rc = s->source->ops->log_start(s->source->opaque, err);
    if (rc)
        return rc;
    s->logging = true;
    rc = copy_rounds(s, err);
    if (!rc)
        rc = save_paused(s, err);
    if (rc)
        return rc;
    stop_logging(s);
    rc = finish_file(s, err);
    if (!rc && s->paused)
        rc = resume_guest(s, false, err);
    return rc;
}

/* The guest goes on as it was, then the reason is told. */
static enum precopy_outcome settle_failure(struct saver *s, int code, struct error *err)
{
    struct error resume_error = {.text = ""};
    struct progress_view view;

    if (s->paused && resume_guest(s, s->was_running, &resume_error))
        error_prefix(err, "the guest could not be resumed (%s) after", resume_error.text);
    stop_logging(s);
    progress_get(s->progress, &view);
    if (code == -ECANCELED && s->source->ops->alive(s->source->opaque, err) == 0)
        return PRECOPY_CANCELLED;
    if (view.phase == PROGRESS_ROUNDS)
        error_prefix(err, "in round %" PRIu32, s->round);
    else if (view.phase == PROGRESS_STATE)
        error_prefix(err, "while finishing the file");
    else if (view.phase < PROGRESS_ROUNDS)
        error_prefix(err, "%s", progress_phase_name(PROGRESS_JOIN));
    else
        error_prefix(err, "%s", progress_phase_name(view.phase));
    return PRECOPY_FAILED;
}

enum precopy_outcome snapshot_save_run(const struct migrate_source *source, const char *path,
                                       const struct snapshot_options *options,
                                       struct progress *progress, struct error *err)
{
    struct saver *s = calloc(1, sizeof(*s));
    enum precopy_outcome outcome = PRECOPY_COMPLETED;
    struct progress_view *view;
    int rc;

    if (!s) {
        (void)error_set(err, ENOMEM, "no memory for a snapshot");
        return PRECOPY_FAILED;
    }
    assert(options->copy.chunk_pages && options->copy.chunk_pages % 64 == 0);
    s->source = source;
    s->options = options;
    s->progress = progress;
    progress_begin(progress)->started_ns = clock_now_ns();
    progress_end(progress);
    rc = save(s, path, err);
    if (rc)
        outcome = settle_failure(s, rc, err);
    else
        progress_set_phase(progress, PROGRESS_DONE);
    view = progress_begin(progress);
    view->ended_ns = clock_now_ns();
    view->sent_bytes = s->pages.written_bytes;
    progress_end(progress);
    snapshot_file_close(&s->file);
    saver_copy_free(s);
    snapshot_pages_free(&s->pages);
    free(s->state);
    free(s);
    return outcome;
}
