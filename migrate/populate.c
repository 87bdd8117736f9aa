/* SPDX-License-Identifier: MIT */
#include "migrate/populate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/log.h"

/* Between two looks at `stop`: 32 MiB. */
#define STEP_GRANULES 16u

static uint64_t granule_count(const struct migrate_region *region)
{
    return (region->npages + POPULATE_GRANULE_PAGES - 1) / POPULATE_GRANULE_PAGES;
}

int populate_init(struct populate *populate, const struct migrate_sink *sink,
                  const struct migrate_layout *layout, struct error *err)
{
    populate->sink = sink;
    populate->layout = *layout;
    for (unsigned i = 0; i < layout->nregions; i++) {
        size_t words = bitmap_words(granule_count(&layout->region[i]));

        populate->granules[i] = calloc(words, sizeof(uint64_t));
        if (!populate->granules[i])
            return error_set(err, ENOMEM, "no memory for the bitmap of extents");
    }
    return 0;
}

int populate_add(struct populate *populate, const struct record *record, struct error *err)
{
    uint32_t nruns = record->header.meta_bytes / WIRE_RUN_BYTES;

    if (record->header.meta_bytes % WIRE_RUN_BYTES)
        return error_set(err, EPROTO, "EXTENTS with %" PRIu32 " bytes of metadata",
                         record->header.meta_bytes);
    for (uint32_t i = 0; i < nruns; i++) {
        struct wire_placed_run run;
        uint64_t first, last;
        int rc = wire_get_run(record->meta + i * WIRE_RUN_BYTES, &populate->layout, &run, err);

        if (!rc && run.kind != WIRE_KIND_POPULATED)
            rc = error_set(err, EPROTO, "EXTENTS with a run of kind %" PRIu32, run.kind);
        if (rc)
            return rc;
        first = run.first_page / POPULATE_GRANULE_PAGES;
        last = (run.first_page + run.npages - 1) / POPULATE_GRANULE_PAGES;
        bitmap_set_range(populate->granules[run.region], first, last - first + 1);
    }
    return 0;
}

/* Populates one run of granules in steps; false ends the thread. */
static bool populate_run(struct populate *populate, unsigned region, struct bitmap_run run)
{
    uint64_t npages = populate->layout.region[region].npages;

    while (run.count) {
        uint64_t step = run.count < STEP_GRANULES ? run.count : STEP_GRANULES;
        uint64_t first = run.first * POPULATE_GRANULE_PAGES;
        uint64_t end = (run.first + step) * POPULATE_GRANULE_PAGES;
        struct migrate_chunk chunk = {
            .region = region, .first_page = first, .npages = (end < npages ? end : npages) - first};
        struct error err = {.text = ""};

        if (__atomic_load_n(&populate->stop, __ATOMIC_RELAXED))
            return false;
        if (populate->sink->ops->populate(populate->sink->opaque, &chunk, &err)) {
            log_warning("memory is populated as pages arrive: %s", err.text);
            return false;
        }
        run.first += step;
        run.count -= step;
    }
    return true;
}

static void *populate_main(void *opaque)
{
    struct populate *populate = opaque;

    for (unsigned i = 0; i < populate->layout.nregions; i++) {
        uint64_t count = granule_count(&populate->layout.region[i]);
        struct bitmap_run run;
        uint64_t position = 0;

        while (bitmap_next_run(populate->granules[i], count, &position, &run)) {
            if (!populate_run(populate, i, run))
                return NULL;
        }
    }
    return NULL;
}

void populate_start(struct populate *populate)
{
    if (populate->started)
        return;
    populate->started = pthread_create(&populate->thread, NULL, populate_main, populate) == 0;
}

void populate_stop(struct populate *populate)
{
    __atomic_store_n(&populate->stop, true, __ATOMIC_RELAXED);
    if (populate->started)
        (void)pthread_join(populate->thread, NULL);
    populate->started = false;
    for (unsigned i = 0; i < MIGRATE_MAX_REGIONS; i++) {
        free(populate->granules[i]);
        populate->granules[i] = NULL;
    }
}
