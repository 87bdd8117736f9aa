/* SPDX-License-Identifier: MIT */
#include "migrate/snapshot_load.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate/snapshot_read.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"

#define MAX_THREADS 4

struct loader {
    const struct migrate_sink *sink;
    const struct snapshot_load_options *options;
    struct progress *progress;
    struct snapshot_reader reader;
    struct migrate_layout layout;
    struct snapshot_entry *map; /* all regions' granules, in order */
    uint64_t ngranules;
    uint64_t next; /* atomic: the granule that the next thread takes */
    pthread_mutex_t lock;
    int rc; /* the first failure, under the lock; its line is in err */
    struct error err;
    bool created;
};

static int keep_entry(void *opaque, unsigned region, uint64_t granule,
                      const struct snapshot_entry *entry, struct error *err)
{
    struct loader *l = opaque;

    (void)err;
    for (unsigned i = 0; i < region; i++)
        granule += snapshot_region_granules(&l->reader.header.region[i]);
    l->map[granule] = *entry;
    return 0;
}

/* The file's regions must be the machine's before anything is sized by them. */
static int read_map(struct loader *l, struct error *err)
{
    const struct snapshot_header *header = &l->reader.header;
    bool fits = header->nregions == l->layout.nregions;

    for (unsigned i = 0; fits && i < header->nregions; i++)
        fits = header->region[i].gpa == l->layout.region[i].gpa &&
               header->region[i].npages == l->layout.region[i].npages;
    if (!fits)
        return error_set(err, EPROTO, "%.300s: at byte 0: the regions are not those of its machine",
                         l->reader.path);
    l->ngranules = snapshot_map_bytes(header) / SNAPSHOT_ENTRY_BYTES;
    l->map = calloc((size_t)l->ngranules + 1, sizeof(*l->map));
    if (!l->map)
        return error_set(err, ENOMEM, "no memory for the snapshot's page map");
    return snapshot_reader_walk(&l->reader, keep_entry, l, err);
}

static int build_machine(struct loader *l, struct error *err)
{
    const struct migrate_sink_ops *ops = l->sink->ops;
    const void *tree = l->reader.payload[SNAPSHOT_MACHINE];
    size_t tree_bytes = l->reader.payload_bytes[SNAPSHOT_MACHINE];
    int rc;

    progress_set_phase(l->progress, PROGRESS_MACHINE);
    rc = ops->check(l->sink->opaque, tree, tree_bytes, err);
    if (!rc)
        rc = ops->create(l->sink->opaque, tree, tree_bytes, &l->layout, err);
    l->created = rc == 0;
    return rc;
}

/* Where granule number `number` is. */
static void find_granule(const struct loader *l, uint64_t number, unsigned *region,
                         uint64_t *granule)
{
    unsigned r = 0;

    while (number >= snapshot_region_granules(&l->reader.header.region[r]))
        number -= snapshot_region_granules(&l->reader.header.region[r++]);
    *region = r;
    *granule = number;
}

static int cancelled(const struct loader *l, struct error *err)
{
    struct pollfd wish = {.fd = l->options->cancel_fd, .events = POLLIN};

    return poll(&wish, 1, 0) > 0 ? error_set(err, ECANCELED, "cancelled") : 0;
}

static int load_granule(struct loader *l, uint64_t number, struct error *err)
{
    const struct snapshot_entry *entry = &l->map[number];
    uint64_t ndata = bitmap_count(entry->data, SNAPSHOT_GRANULE_PAGES);
    uint64_t nzero = bitmap_count(entry->zero, SNAPSHOT_GRANULE_PAGES);
    struct progress_view *view;
    uint64_t granule;
    unsigned region;
    int rc = 0;

    find_granule(l, number, &region, &granule);
    /* Only where every page comes: else memory would be taken that the guest never touched. */
    if (ndata == SNAPSHOT_GRANULE_PAGES) {
        struct migrate_chunk chunk = {.region = region,
                                      .first_page = granule * SNAPSHOT_GRANULE_PAGES,
                                      .npages = SNAPSHOT_GRANULE_PAGES};

        rc = l->sink->ops->populate(l->sink->opaque, &chunk, err);
    }
    if (!rc)
        rc = snapshot_reader_granule(
            &l->reader, region, granule, entry,
            l->layout.region[region].hva + granule * SNAPSHOT_GRANULE_BYTES, err);
    view = progress_begin(l->progress);
    view->data_pages += ndata;
    view->zero_pages += nzero;
    view->sent_bytes += ndata * MIGRATE_PAGE_BYTES;
    progress_end(l->progress);
    return rc;
}

static void *load_main(void *opaque)
{
    struct loader *l = opaque;
    struct error err = {.text = ""};
    int rc = 0;

    while (!rc) {
        uint64_t number = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);

        if (number >= l->ngranules)
            return NULL;
        rc = cancelled(l, &err);
        if (!rc)
            rc = load_granule(l, number, &err);
    }
    (void)pthread_mutex_lock(&l->lock);
    if (!l->rc) {
        l->rc = rc;
        l->err = err;
    }
    (void)pthread_mutex_unlock(&l->lock);
    __atomic_store_n(&l->next, l->ngranules, __ATOMIC_RELAXED);
    return NULL;
}

/* All pages; this thread takes part, so that it works however few others can be had. */
static int load_pages(struct loader *l, struct error *err)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MAX_THREADS];
    int nthreads = 0;

    progress_begin(l->progress)->rounds_started_ns = clock_now_ns();
    progress_end(l->progress);
    progress_set_phase(l->progress, PROGRESS_ROUNDS);
    while (nthreads + 1 < cpus && nthreads + 1 < MAX_THREADS &&
           pthread_create(&threads[nthreads], NULL, load_main, l) == 0)
        nthreads++;
    (void)load_main(l);
    for (int i = 0; i < nthreads; i++)
        (void)pthread_join(threads[i], NULL);
    if (l->rc)
        *err = l->err;
    return l->rc;
}

static int load(struct loader *l, const char *path, struct error *err)
{
    int rc = snapshot_reader_open(&l->reader, path, err);

    if (!rc)
        rc = build_machine(l, err);
    if (!rc)
        rc = read_map(l, err);
    if (!rc)
        rc = load_pages(l, err);
    if (rc)
        return rc;
    progress_set_phase(l->progress, PROGRESS_STATE);
    rc = l->sink->ops->load(l->sink->opaque, l->reader.payload[SNAPSHOT_STATE],
                            l->reader.payload_bytes[SNAPSHOT_STATE], err);
    return rc ? rc : cancelled(l, err);
}

static void run_guest(struct loader *l)
{
    bool run = (l->reader.header.flags & SNAPSHOT_FLAG_RUN) && !l->options->paused;
    struct progress_view *view;

    l->sink->ops->run(l->sink->opaque, run);
    view = progress_begin(l->progress);
    view->phase = PROGRESS_DONE;
    view->nrounds = 1;
    view->running_ns = clock_now_ns();
    view->resumed_at_ns = view->running_ns;
    view->ended_ns = view->running_ns;
    progress_end(l->progress);
}

enum receive_outcome snapshot_load_run(const struct migrate_sink *sink, const char *path,
                                       const struct snapshot_load_options *options,
                                       struct progress *progress, struct error *err)
{
    struct loader *l = calloc(1, sizeof(*l));
    enum receive_outcome outcome = RECEIVE_RUNNING;

    if (!l) {
        (void)error_set(err, ENOMEM, "no memory for a restore");
        return RECEIVE_DISCARDED;
    }
    l->sink = sink;
    l->options = options;
    l->progress = progress;
    (void)pthread_mutex_init(&l->lock, NULL);
    progress_begin(progress)->started_ns = clock_now_ns();
    progress_end(progress);
    if (load(l, path, err)) {
        outcome = RECEIVE_DISCARDED;
        if (l->created)
            sink->ops->discard(sink->opaque);
    } else {
        run_guest(l);
    }
    snapshot_reader_close(&l->reader);
    (void)pthread_mutex_destroy(&l->lock);
    free(l->map);
    free(l);
    return outcome;
}
