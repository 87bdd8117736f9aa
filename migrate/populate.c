/* SPDX-License-Identifier: MIT */
#include "migrate/populate.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
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

/* Whether this granule is the caller's to populate: announced, and nobody else's. */
static bool claim(struct populate *populate, unsigned region, uint64_t granule)
{
    uint64_t *word = &populate->granules[region][granule / BITMAP_WORD_BITS];
    uint64_t bit = 1ull << granule % BITMAP_WORD_BITS;

    if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit))
        return false;
    return __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED) & bit;
}

static void populate_granules(struct populate *populate, unsigned region, uint64_t first,
                              uint64_t count)
{
    uint64_t npages = populate->layout.region[region].npages;
    uint64_t first_page = first * POPULATE_GRANULE_PAGES;
    uint64_t end = (first + count) * POPULATE_GRANULE_PAGES;
    struct migrate_chunk chunk = {.region = region,
                                  .first_page = first_page,
                                  .npages = (end < npages ? end : npages) - first_page};
    struct error err = {.text = ""};

    if (!populate->sink->ops->populate(populate->sink->opaque, &chunk, &err))
        return;
    if (!__atomic_exchange_n(&populate->stop, true, __ATOMIC_RELAXED))
        log_warning("memory is populated as pages arrive: %s", err.text);
}

/* Granules [first, end), in steps, as far as they can be claimed. */
static void populate_range(struct populate *populate, unsigned region, uint64_t first, uint64_t end)
{
    uint64_t mine = 0; /* claimed, right before `first` */

    while (first < end || mine) {
        bool more = first < end && mine < STEP_GRANULES && claim(populate, region, first);

        if (more) {
            mine++;
        } else if (mine) {
            populate_granules(populate, region, first - mine, mine);
            mine = 0;
            continue; /* `first` was not looked at, or is another's */
        }
        if (__atomic_load_n(&populate->stop, __ATOMIC_RELAXED))
            return;
        first++;
    }
}

static void *populate_main(void *opaque)
{
    struct populate *populate = opaque;

    for (unsigned i = 0; i < populate->layout.nregions; i++)
        populate_range(populate, i, 0, granule_count(&populate->layout.region[i]));
    return NULL;
}

void populate_begin(struct populate *populate, unsigned busy)
{
    cpu_set_t allowed;

    if (populate->begun)
        return;
    __atomic_store_n(&populate->begun, true, __ATOMIC_RELEASE);
    /* Ahead of files, a thread would only clear pages that are about to be given whole. */
    if (!migrate_layout_in_files(&populate->layout) &&
        sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > (int)busy)
        populate->started = pthread_create(&populate->thread, NULL, populate_main, populate) == 0;
}

bool populate_has_begun(const struct populate *populate)
{
    return populate->begun;
}

void populate_pages(struct populate *populate, unsigned region, uint64_t first_page,
                    uint64_t npages)
{
    uint64_t end = (first_page + npages - 1) / POPULATE_GRANULE_PAGES + 1;

    if (__atomic_load_n(&populate->begun, __ATOMIC_ACQUIRE) &&
        !__atomic_load_n(&populate->stop, __ATOMIC_RELAXED))
        populate_range(populate, region, first_page / POPULATE_GRANULE_PAGES, end);
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
