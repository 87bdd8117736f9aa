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
                        struct error *err)
{
    size_t words = bitmap_words(options->chunk_pages);

    copier->chunk_pages = options->chunk_pages;
    copier->data = calloc(words, sizeof(uint64_t));
    copier->zero = calloc(words, sizeof(uint64_t));
    copier->batch = malloc(sizeof(*copier->batch));
    if (!copier->data || !copier->zero || !copier->batch)
        return error_set(err, ENOMEM, "no memory for the migration's buffers");
    pace_init(&copier->pace, options->max_bandwidth, clock_now_ns());
    batch_init(copier->batch, pace_batch_bytes(&copier->pace, BATCH_BYTES));
    return 0;
}

void precopy_copier_free(struct precopy_copier *copier)
{
    free(copier->data);
    free(copier->zero);
    free(copier->batch);
}

static int wait_for_turn(struct precopy_copier *copier, struct error *err)
{
    uint64_t wait_ns;

    while ((wait_ns = pace_wait_ns(&copier->pace, clock_now_ns())) > 0) {
        /* The destination has nothing to say in a round unless it failed; waiting for it is a sleep
         * that a failure or a cancellation ends early. */
        int rc = channel_wait_readable(copier->link->channel, wait_ns, err);

        if (rc > 0) {
            rc = record_receive(copier->link, copier->record, err);
            if (!rc)
                rc = error_set(err, EPROTO, "the destination spoke out of turn");
        }
        if (rc)
            return rc;
    }
    return 0;
}

static int flush(struct precopy_copier *copier, uint16_t type, uint32_t round, struct error *err)
{
    struct wire_header header = {.type = type, .round = round};
    struct batch *batch = copier->batch;
    uint64_t pages = batch->payload_bytes / MIGRATE_PAGE_BYTES;
    uint64_t elapsed_ns;
    struct progress_view *view;
    int rc;

    if (batch_empty(batch))
        return 0;
    rc = wait_for_turn(copier, err);
    if (rc)
        return rc;
    batch_finish(batch, &header);
    pace_spend(&copier->pace, batch->vectors[0].iov_len + batch->payload_bytes, clock_now_ns());
    rc = record_send_vectors(copier->link, &header, batch->vectors, batch->nvectors, err);
    batch_reset(batch);
    elapsed_ns = clock_now_ns() - copier->begin_ns;
    view = progress_begin(copier->progress);
    view->sent_bytes = channel_sent_bytes(copier->link->channel);
    if (type == WIRE_PAGES && elapsed_ns > BANDWIDTH_SETTLE_NS)
        view->bandwidth = (uint64_t)((double)(view->sent_bytes - copier->begin_sent) /
                                     (double)elapsed_ns * (double)CLOCK_NS_PER_SEC);
    if (view->remaining_bytes >= pages * MIGRATE_PAGE_BYTES)
        view->remaining_bytes -= pages * MIGRATE_PAGE_BYTES;
    progress_end(copier->progress);
    return rc;
}

/* Adds a run, in as many batches as it takes; first_page is what bit 0 stands for. */
static int add_run(struct precopy_copier *copier, const struct migrate_chunk *chunk,
                   struct bitmap_run run, enum wire_kind kind, uint32_t round, struct error *err)
{
    const struct migrate_region *region = &copier->layout.region[chunk->region];
    uint16_t type = kind == WIRE_KIND_POPULATED ? WIRE_EXTENTS : WIRE_PAGES;

    while (run.count) {
        uint64_t added =
            batch_add(copier->batch, region, chunk->first_page + run.first, run.count, kind);

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
    int rc = source->ops->claim(source->opaque, chunk, round == 0, copier->data, copier->zero, err);

    if (!rc)
        rc = add_runs(copier, chunk, copier->zero, WIRE_KIND_ZERO, round, &totals->zero_pages, err);
    if (!rc)
        rc = add_runs(copier, chunk, copier->data, WIRE_KIND_DATA, round, &totals->data_pages, err);
    return rc;
}

static void account_round(struct precopy_copier *copier, uint32_t round,
                          const struct round_totals *totals)
{
    struct progress_view *view = progress_begin(copier->progress);
    struct progress_round *slot = &view->rounds[round % PROGRESS_MAX_ROUNDS];

    view->sent_bytes = channel_sent_bytes(copier->link->channel);
    view->data_pages += totals->data_pages;
    view->zero_pages += totals->zero_pages;
    slot->dirty_pages = totals->data_pages + totals->zero_pages;
    slot->zero_pages = totals->zero_pages;
    slot->sent_bytes = view->sent_bytes - copier->begin_sent;
    progress_end(copier->progress);
}

int precopy_send_round(struct precopy_copier *copier, uint32_t round, bool last, struct error *err)
{
    struct wire_header sync = {.type = WIRE_SYNC, .round = round};
    struct round_totals totals = {0};
    int rc;

    copier->begin_ns = clock_now_ns();
    copier->begin_sent = channel_sent_bytes(copier->link->channel);
    rc = for_each_chunk(copier, visit_pages, round, &totals, err);
    if (!rc)
        rc = flush(copier, WIRE_PAGES, round, err);
    if (!rc) {
        sync.flags = last ? WIRE_FLAG_LAST : 0;
        rc = record_send(copier->link, &sync, NULL, 0, NULL, 0, err);
    }
    account_round(copier, round, &totals);
    return rc;
}
