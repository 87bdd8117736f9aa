/* SPDX-License-Identifier: MIT */
#include "migrate/precopy_round.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"

/* Large enough that a record's fixed cost vanishes, small enough that the counters move. */
#define BATCH_BYTES (4ull * 1024 * 1024)

/* A round younger than this tells nothing about the link yet. */
#define BANDWIDTH_SETTLE_NS (50 * CLOCK_NS_PER_MS)

struct round_totals {
    uint64_t data_pages;
    uint64_t zero_pages;
};

int precopy_copier_init(struct precopy_copier *copier, const struct precopy_options *options,
                        struct record_link *first, struct error *err)
{
    size_t words = bitmap_words(options->chunk_pages);
    struct streams_options streams = precopy_streams_options(options);

    streams.progress = copier->progress;
    copier->chunk_pages = options->chunk_pages;
    copier->data = calloc(words, sizeof(uint64_t));
    copier->zero = calloc(words, sizeof(uint64_t));
    if (!copier->data || !copier->zero)
        return error_set(err, ENOMEM, "no memory for the migration's buffers");
    pace_init(&copier->pace, options->max_bandwidth, clock_now_ns());
    return streams_open(&copier->streams, first, &streams, err);
}

struct streams_options precopy_streams_options(const struct precopy_options *options)
{
    uint64_t batch_bytes = options->compress ? WIRE_MAX_PACKED_PAGES_BYTES : BATCH_BYTES;
    struct pace pace;

    pace_init(&pace, options->max_bandwidth, 0);
    return (struct streams_options){.codec = options->compress,
                                    .level = options->compress_level,
                                    .zerocopy = options->zerocopy,
                                    .max_batch_bytes = pace_batch_bytes(&pace, batch_bytes)};
}

void precopy_copier_free(struct precopy_copier *copier)
{
    streams_close(&copier->streams);
    free(copier->data);
    free(copier->zero);
}

/* Accounts for what was really sent: what a batch shrinks to is known only afterwards. */
static int settle_pace(struct precopy_copier *copier, struct error *err)
{
    int rc = streams_drain(&copier->streams, err);
    uint64_t sent = streams_sent_bytes(&copier->streams);

    pace_spend(&copier->pace, sent - copier->paced_bytes, clock_now_ns());
    copier->paced_bytes = sent;
    return rc;
}

static int wait_for_turn(struct precopy_copier *copier, struct error *err)
{
    struct record_link *first = copier->streams.stream[0].link;
    uint64_t wait_ns;
    int rc = copier->pace.bytes_per_s ? settle_pace(copier, err) : 0;

    while (!rc && (wait_ns = pace_wait_ns(&copier->pace, clock_now_ns())) > 0) {
        /* The destination has nothing to say in a round unless it failed; waiting for it is a sleep
         * that a failure or a cancellation ends early. */
        rc = channel_wait_readable(first->channel, wait_ns, err);
        if (rc > 0) {
            rc = record_receive(first, copier->record, err);
            if (!rc)
                rc = error_set(err, EPROTO, "the destination spoke out of turn");
        }
    }
    return rc;
}

/* What people see of the round under way. */
static void show_progress(struct precopy_copier *copier, uint64_t flushed_bytes, bool pages)
{
    uint64_t elapsed_ns = clock_now_ns() - copier->begin_ns;
    uint64_t sent = streams_sent_bytes(&copier->streams);
    struct progress_view *view = progress_begin(copier->progress);

    view->sent_bytes = sent;
    if (pages && elapsed_ns > BANDWIDTH_SETTLE_NS)
        view->bandwidth = (uint64_t)((double)(sent - copier->begin_sent) / (double)elapsed_ns *
                                     (double)CLOCK_NS_PER_SEC);
    if (view->remaining_bytes >= flushed_bytes)
        view->remaining_bytes -= flushed_bytes;
    progress_end(copier->progress);
}

static int flush(struct precopy_copier *copier, uint16_t type, uint32_t round, struct error *err)
{
    struct batch *batch = copier->batch;
    uint64_t bytes;
    int rc;

    if (!batch || batch_empty(batch))
        return 0;
    bytes = batch->payload_bytes;
    rc = wait_for_turn(copier, err);
    if (rc)
        return rc;
    copier->batch = NULL;
    rc = streams_submit(&copier->streams, type, round, err);
    show_progress(copier, bytes, type == WIRE_PAGES);
    return rc;
}

/* Adds a run, in as many batches as it takes; first_page is what bit 0 stands for. */
static int add_run(struct precopy_copier *copier, const struct migrate_chunk *chunk,
                   struct bitmap_run run, enum wire_kind kind, uint32_t round, struct error *err)
{
    const struct migrate_region *region = &copier->layout.region[chunk->region];
    uint16_t type = kind == WIRE_KIND_POPULATED ? WIRE_EXTENTS : WIRE_PAGES;

    while (run.count) {
        uint64_t added;

        if (!copier->batch) {
            int rc =
                streams_batch(&copier->streams, kind == WIRE_KIND_POPULATED, &copier->batch, err);

            if (rc)
                return rc;
        }
        added = batch_add(copier->batch, region, chunk->first_page + run.first, run.count, kind);

        run.first += added;
        run.count -= added;
        if (!added) {
            int rc = flush(copier, type, round, err);

            if (rc)
                return rc;
        }
    }
    return 0;
}

/* Adds all runs of one kind. */
static int add_runs(struct precopy_copier *copier, const struct migrate_chunk *chunk,
                    const uint64_t *words, enum wire_kind kind, uint32_t round, uint64_t *npages,
                    struct error *err)
{
    struct bitmap_run runs[BITMAP_RUNS_BATCH];
    uint64_t position = 0;
    size_t n;

    while ((n = bitmap_runs(words, chunk->npages, &position, runs, BITMAP_RUNS_BATCH)) > 0) {
        for (size_t i = 0; i < n; i++) {
            int rc = add_run(copier, chunk, runs[i], kind, round, err);

            if (rc)
                return rc;
            *npages += runs[i].count;
        }
    }
    return 0;
}

typedef int chunk_visitor(struct precopy_copier *copier, const struct migrate_chunk *chunk,
                          uint32_t round, struct round_totals *totals, struct error *err);

static int for_each_chunk(struct precopy_copier *copier, chunk_visitor *visit, uint32_t round,
                          struct round_totals *totals, struct error *err)
{
    for (unsigned r = 0; r < copier->layout.nregions; r++) {
        uint64_t npages = copier->layout.region[r].npages;

        for (uint64_t first = 0; first < npages; first += copier->chunk_pages) {
            uint64_t left = npages - first;
            struct migrate_chunk chunk = {
                .region = r,
                .first_page = first,
                .npages = left < copier->chunk_pages ? left : copier->chunk_pages};
            int rc = visit(copier, &chunk, round, totals, err);

            if (rc)
                return rc;
        }
    }
    return 0;
}

/* Rounds the populated pages up to granules: the destination populates in huge-page steps anyway.
 */
static int visit_extents(struct precopy_copier *copier, const struct migrate_chunk *chunk,
                         uint32_t round, struct round_totals *totals, struct error *err)
{
    const struct migrate_source *source = copier->source;
    int rc = source->ops->populated(source->opaque, chunk, copier->data, err);

    if (rc)
        return rc;
    for (uint64_t first = 0; first < chunk->npages; first += PRECOPY_GRANULE_PAGES) {
        uint64_t left = chunk->npages - first;
        uint64_t count = left < PRECOPY_GRANULE_PAGES ? left : PRECOPY_GRANULE_PAGES;

        if (bitmap_any(copier->data + first / BITMAP_WORD_BITS, count))
            bitmap_set_range(copier->data, first, count);
    }
    return add_runs(copier, chunk, copier->data, WIRE_KIND_POPULATED, round, &totals->data_pages,
                    err);
}

int precopy_send_extents(struct precopy_copier *copier, struct error *err)
{
    struct round_totals totals = {0};
    int rc = for_each_chunk(copier, visit_extents, 0, &totals, err);

    return rc ? rc : flush(copier, WIRE_EXTENTS, 0, err);
}

static int visit_pages(struct precopy_copier *copier, const struct migrate_chunk *chunk,
                       uint32_t round, struct round_totals *totals, struct error *err)
{
    const struct migrate_source *source = copier->source;
    uint64_t begin = clock_now_ns();
    int rc = source->ops->claim(source->opaque, chunk, round == 0, copier->data, copier->zero, err);

    progress_took(copier->progress, &copier->progress->view.claim_ns, begin);
    if (!rc)
        rc = add_runs(copier, chunk, copier->zero, WIRE_KIND_ZERO, round, &totals->zero_pages, err);
    if (!rc)
        rc = add_runs(copier, chunk, copier->data, WIRE_KIND_DATA, round, &totals->data_pages, err);
    return rc;
}

static void account_round(struct precopy_copier *copier, uint32_t round,
                          const struct round_totals *totals)
{
    uint64_t sent = streams_sent_bytes(&copier->streams);
    struct progress_view *view = progress_begin(copier->progress);
    struct progress_round *slot = &view->rounds[round % PROGRESS_MAX_ROUNDS];

    view->sent_bytes = sent;
    view->data_pages += totals->data_pages;
    view->zero_pages += totals->zero_pages;
    slot->dirty_pages = totals->data_pages + totals->zero_pages;
    slot->zero_pages = totals->zero_pages;
    slot->sent_bytes = view->sent_bytes - copier->begin_sent;
    progress_end(copier->progress);
}

int precopy_send_round(struct precopy_copier *copier, uint32_t round, uint64_t pending_pages,
                       bool last, struct error *err)
{
    struct round_totals totals = {0};
    int rc;

    copier->begin_ns = clock_now_ns();
    copier->begin_sent = streams_sent_bytes(&copier->streams);
    streams_begin_round(&copier->streams, pending_pages * MIGRATE_PAGE_BYTES, last);
    rc = for_each_chunk(copier, visit_pages, round, &totals, err);
    if (!rc)
        rc = flush(copier, WIRE_PAGES, round, err);
    if (!rc)
        rc = streams_sync(&copier->streams, round, last, err);
    account_round(copier, round, &totals);
    return rc;
}
