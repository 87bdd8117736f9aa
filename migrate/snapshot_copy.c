/* SPDX-License-Identifier: MIT
 *
 * One round of a snapshot: claims, and what was claimed to its place. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "migrate/snapshot_internal.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"

#define BATCH_BYTES (4ull * 1024 * 1024)

int saver_copy_init(struct saver *s, struct error *err)
{
    size_t words = bitmap_words(s->options->copy.chunk_pages);

    s->data = calloc(words, sizeof(uint64_t));
    s->zero = calloc(words, sizeof(uint64_t));
    if (!s->data || !s->zero)
        return error_set(err, ENOMEM, "no memory for the snapshot's buffers");
    pace_init(&s->pace, s->options->copy.max_bandwidth, clock_now_ns());
    s->batch_pages = pace_batch_bytes(&s->pace, BATCH_BYTES) / MIGRATE_PAGE_BYTES;
    return 0;
}

void saver_copy_free(struct saver *s)
{
    free(s->data);
    free(s->zero);
}

/* Waits, at most that long, for somebody to cancel. */
static int wait_cancel(const struct saver *s, uint64_t ns, struct error *err)
{
    struct pollfd wish = {.fd = s->options->cancel_fd, .events = POLLIN};
    struct timespec wait = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_SEC),
                            .tv_nsec = (long)(ns % CLOCK_NS_PER_SEC)};

    if (ppoll(&wish, 1, &wait, NULL) > 0)
        return error_set(err, ECANCELED, "cancelled");
    return 0;
}

int saver_look(void *opaque, struct error *err)
{
    const struct saver *s = opaque;

    if (converge_must_give_up(&s->policy, clock_now_ns() - s->rounds_begin_ns))
        return error_set(err, ETIMEDOUT, "the timeout is over");
    return wait_cancel(s, 0, err);
}

static int wait_for_turn(const struct saver *s, struct error *err)
{
    uint64_t wait_ns;
    int rc = saver_look((void *)(uintptr_t)s, err);

    while (!rc && (wait_ns = pace_wait_ns(&s->pace, clock_now_ns())) > 0)
        rc = wait_cancel(s, wait_ns, err);
    return rc;
}

static void show_written(struct saver *s, uint64_t pages)
{
    struct progress_view *view = progress_begin(s->progress);

    view->sent_bytes = s->pages.written_bytes;
    if (view->remaining_bytes >= pages * MIGRATE_PAGE_BYTES)
        view->remaining_bytes -= pages * MIGRATE_PAGE_BYTES;
    progress_end(s->progress);
}

/* Writes one run, in as many batches as it takes. */
static int put_run(struct saver *s, const struct migrate_chunk *chunk, struct bitmap_run run,
                   uint64_t *nzero, struct error *err)
{
    while (run.count) {
        uint64_t count = run.count < s->batch_pages ? run.count : s->batch_pages;
        uint64_t before = s->pages.written_bytes;
        int rc = wait_for_turn(s, err);

        /* The first round's claims tell zeros apart; in later ones a page may have become one. */
        if (!rc)
            rc = snapshot_pages_put(&s->pages, chunk->region, chunk->first_page + run.first, count,
                                    s->round > 0, nzero, err);
        if (rc)
            return rc;
        pace_spend(&s->pace, s->pages.written_bytes - before, clock_now_ns());
        show_written(s, count);
        run.first += count;
        run.count -= count;
    }
    return 0;
}

static int copy_chunk(struct saver *s, const struct migrate_chunk *chunk, uint64_t *ndata,
                      uint64_t *nzero, struct error *err)
{
    struct bitmap_run run;
    uint64_t position = 0;
    int rc = saver_look(s, err);

    if (!rc)
        rc = s->source->ops->claim(s->source->opaque, chunk, s->round == 0, s->data, s->zero, err);
    while (!rc && bitmap_next_run(s->zero, chunk->npages, &position, &run)) {
        rc = snapshot_pages_put_zero(&s->pages, chunk->region, chunk->first_page + run.first,
                                     run.count, err);
        *nzero += run.count;
    }
    position = 0;
    while (!rc && bitmap_next_run(s->data, chunk->npages, &position, &run)) {
        uint64_t found = 0;

        rc = put_run(s, chunk, run, &found, err);
        *ndata += run.count - found;
        *nzero += found;
    }
    return rc;
}

int saver_copy_round(struct saver *s, struct error *err)
{
    const struct migrate_layout *layout = &s->pages.layout;
    uint64_t chunk_pages = s->options->copy.chunk_pages;
    uint64_t ndata = 0, nzero = 0;
    struct progress_view *view;
    struct progress_round *slot;
    int rc = 0;

    for (unsigned r = 0; !rc && r < layout->nregions; r++) {
        for (uint64_t first = 0; !rc && first < layout->region[r].npages; first += chunk_pages) {
            uint64_t left = layout->region[r].npages - first;
            struct migrate_chunk chunk = {.region = r,
                                          .first_page = first,
                                          .npages = left < chunk_pages ? left : chunk_pages};

            rc = copy_chunk(s, &chunk, &ndata, &nzero, err);
        }
    }
    view = progress_begin(s->progress);
    slot = &view->rounds[s->round % PROGRESS_MAX_ROUNDS];
    slot->dirty_pages = ndata + nzero;
    slot->zero_pages = nzero;
    view->data_pages += ndata;
    view->zero_pages += nzero;
    view->sent_bytes = s->pages.written_bytes;
    progress_end(s->progress);
    return rc;
}
