/* SPDX-License-Identifier: MIT */
#include "migrate/receive_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "vmm/base/bitmap.h"

int receive_pages_init(struct receive_pages *pages, const struct migrate_layout *layout,
                       struct error *err)
{
    pages->layout = *layout;
    for (unsigned i = 0; i < layout->nregions; i++) {
        pages->written[i] = calloc(bitmap_words(layout->region[i].npages), sizeof(uint64_t));
        if (!pages->written[i])
            return error_set(err, ENOMEM, "no memory for the bitmap of received pages");
    }
    return 0;
}

void receive_pages_free(struct receive_pages *pages)
{
    for (unsigned i = 0; i < MIGRATE_MAX_REGIONS; i++)
        free(pages->written[i]);
}

static uint8_t *run_hva(const struct receive_pages *pages, const struct wire_placed_run *run)
{
    return pages->layout.region[run->region].hva + run->first_page * MIGRATE_PAGE_BYTES;
}

/* Decodes all runs; *nvectors gets the data runs' vectors. */
static int place_runs(struct receive_pages *pages, const struct record *record, unsigned *nruns,
                      unsigned *nvectors, struct error *err)
{
    uint64_t data_bytes = 0;

    if (record->header.meta_bytes % WIRE_RUN_BYTES)
        return error_set(err, EPROTO, "PAGES with %" PRIu32 " bytes of metadata",
                         record->header.meta_bytes);
    *nruns = record->header.meta_bytes / WIRE_RUN_BYTES;
    *nvectors = 0;
    for (unsigned i = 0; i < *nruns; i++) {
        struct wire_placed_run *run = &pages->runs[i];
        int rc = wire_get_run(record->meta + i * WIRE_RUN_BYTES, &pages->layout, run, err);

        if (!rc && run->kind == WIRE_KIND_POPULATED)
            rc = error_set(err, EPROTO, "PAGES with a run of kind POPULATED");
        if (rc)
            return rc;
        if (run->kind == WIRE_KIND_DATA) {
            size_t bytes = (size_t)(run->npages * MIGRATE_PAGE_BYTES);

            pages->vectors[(*nvectors)++] =
                (struct iovec){.iov_base = run_hva(pages, run), .iov_len = bytes};
            data_bytes += bytes; /* at most WIRE_MAX_RUNS times 2^44 */
        }
    }
    if (data_bytes != record->header.payload_bytes)
        return error_set(err, EPROTO,
                         "PAGES with runs of %" PRIu64 " bytes and a payload of %" PRIu64,
                         data_bytes, record->header.payload_bytes);
    return 0;
}

static void zero_run(struct receive_pages *pages, const struct wire_placed_run *run)
{
    const struct migrate_region *region = &pages->layout.region[run->region];
    uint64_t *written = pages->written[run->region];
    uint64_t position = run->first_page;
    struct bitmap_run dirty;

    while (bitmap_next_run(written, run->first_page + run->npages, &position, &dirty)) {
        memset(region->hva + dirty.first * MIGRATE_PAGE_BYTES, 0,
               (size_t)(dirty.count * MIGRATE_PAGE_BYTES));
        for (uint64_t page = dirty.first; page < dirty.first + dirty.count; page++)
            bitmap_clear(written, page);
    }
    pages->zero_pages += run->npages;
}

static int check_payload_hash(const struct receive_pages *pages, unsigned nruns,
                              const struct record *record, struct error *err)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t hash;

    if (!state || XXH3_64bits_reset(state) == XXH_ERROR) {
        (void)XXH3_freeState(state);
        return error_set(err, ENOMEM, "no memory to verify a payload");
    }
    for (unsigned i = 0; i < nruns; i++) {
        const struct wire_placed_run *run = &pages->runs[i];

        if (run->kind == WIRE_KIND_DATA)
            (void)XXH3_64bits_update(state, run_hva(pages, run),
                                     (size_t)(run->npages * MIGRATE_PAGE_BYTES));
    }
    hash = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    if (hash != record->header.payload_hash)
        return error_set(err, EPROTO, "the payload of PAGES is damaged (wrong checksum)");
    return 0;
}

int receive_pages_take(struct receive_pages *pages, struct record_link *link,
                       const struct record *record, struct error *err)
{
    unsigned nruns = 0, nvectors = 0;
    int rc = place_runs(pages, record, &nruns, &nvectors, err);

    if (rc)
        return rc;
    for (unsigned i = 0; i < nruns; i++) {
        const struct wire_placed_run *run = &pages->runs[i];

        if (run->kind == WIRE_KIND_ZERO) {
            zero_run(pages, run);
            continue;
        }
        bitmap_set_range(pages->written[run->region], run->first_page, run->npages);
        pages->data_pages += run->npages;
    }
    rc = channel_receive(link->channel, pages->vectors, nvectors, err);
    if (!rc && (record->header.flags & WIRE_FLAG_PAYLOAD_HASH))
        rc = check_payload_hash(pages, nruns, record, err);
    return rc;
}
