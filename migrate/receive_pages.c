/* SPDX-License-Identifier: MIT */
#include "migrate/receive_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
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
static int place_runs(const struct receive_pages *pages, struct receive_scratch *scratch,
                      const struct record *record, unsigned *nruns, unsigned *nvectors,
                      struct error *err)
{
    uint64_t data_bytes = 0;
    bool packed = record->header.codec != WIRE_CODEC_NONE;

    if (record->header.meta_bytes % WIRE_RUN_BYTES)
        return error_set(err, EPROTO, "PAGES with %" PRIu32 " bytes of metadata",
                         record->header.meta_bytes);
    *nruns = record->header.meta_bytes / WIRE_RUN_BYTES;
    *nvectors = 0;
    for (unsigned i = 0; i < *nruns; i++) {
        struct wire_placed_run *run = &scratch->runs[i];
        int rc = wire_get_run(record->meta + i * WIRE_RUN_BYTES, &pages->layout, run, err);

        if (!rc && run->kind == WIRE_KIND_POPULATED)
            rc = error_set(err, EPROTO, "PAGES with a run of kind POPULATED");
        if (rc)
            return rc;
        if (run->kind == WIRE_KIND_DATA) {
            size_t bytes = (size_t)(run->npages * MIGRATE_PAGE_BYTES);

            scratch->vectors[(*nvectors)++] =
                (struct iovec){.iov_base = run_hva(pages, run), .iov_len = bytes};
            data_bytes += bytes; /* at most WIRE_MAX_RUNS times 2^44 */
        }
    }
    if (packed ? data_bytes == 0 || data_bytes > WIRE_MAX_PACKED_PAGES_BYTES
               : data_bytes != record->header.payload_bytes)
        return error_set(err, EPROTO,
                         "PAGES with runs of %" PRIu64 " bytes and a %spayload of %" PRIu64,
                         data_bytes, packed ? "compressed " : "", record->header.payload_bytes);
    return 0;
}

/* The bits of word `w` that lie in the run. */
static uint64_t word_mask(const struct wire_placed_run *run, uint64_t w)
{
    uint64_t first = w * BITMAP_WORD_BITS, end = first + BITMAP_WORD_BITS;
    uint64_t run_end = run->first_page + run->npages;
    uint64_t mask = UINT64_MAX;

    if (run->first_page > first)
        mask &= UINT64_MAX << (run->first_page - first);
    if (run_end < end)
        mask &= UINT64_MAX >> (end - run_end);
    return mask;
}

static void mark_written(struct receive_pages *pages, const struct wire_placed_run *run)
{
    uint64_t *written = pages->written[run->region];
    uint64_t last = (run->first_page + run->npages - 1) / BITMAP_WORD_BITS;

    for (uint64_t w = run->first_page / BITMAP_WORD_BITS; w <= last; w++)
        (void)__atomic_fetch_or(&written[w], word_mask(run, w), __ATOMIC_RELAXED);
}

static void zero_run(struct receive_pages *pages, const struct wire_placed_run *run)
{
    uint8_t *hva = pages->layout.region[run->region].hva;
    uint64_t *written = pages->written[run->region];
    uint64_t last = (run->first_page + run->npages - 1) / BITMAP_WORD_BITS;

    for (uint64_t w = run->first_page / BITMAP_WORD_BITS; w <= last; w++) {
        uint64_t mask = word_mask(run, w);
        uint64_t dirty = __atomic_load_n(&written[w], __ATOMIC_RELAXED) & mask;
        struct bitmap_run span;
        uint64_t position = 0;

        if (!dirty)
            continue;
        (void)__atomic_fetch_and(&written[w], ~mask, __ATOMIC_RELAXED);
        while (bitmap_next_run(&dirty, BITMAP_WORD_BITS, &position, &span))
            memset(hva + (w * BITMAP_WORD_BITS + span.first) * MIGRATE_PAGE_BYTES, 0,
                   (size_t)(span.count * MIGRATE_PAGE_BYTES));
    }
}

static int hash_is_wrong(struct error *err)
{
    return error_set(err, EPROTO, "the payload of PAGES is damaged (wrong checksum)");
}

static int check_payload_hash(const struct iovec *vectors, unsigned nvectors,
                              const struct record *record, struct error *err)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t hash;

    if (!state || XXH3_64bits_reset(state) == XXH_ERROR) {
        (void)XXH3_freeState(state);
        return error_set(err, ENOMEM, "no memory to verify a payload");
    }
    for (unsigned i = 0; i < nvectors; i++)
        (void)XXH3_64bits_update(state, vectors[i].iov_base, vectors[i].iov_len);
    hash = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    return hash == record->header.payload_hash ? 0 : hash_is_wrong(err);
}

static int take_packed(struct receive_scratch *scratch, struct record_link *link,
                       const struct record *record, unsigned nvectors, struct error *err)
{
    size_t bytes = (size_t)record->header.payload_bytes; /* capped by wire_get_header() */
    struct iovec vector = {.iov_len = bytes};
    int rc = scratch->unpacker ? 0 : unpacker_open(&scratch->unpacker, err);

    if (rc)
        return rc;
    vector.iov_base = unpacker_input(scratch->unpacker);
    rc = channel_receive(link->channel, &vector, 1, err);
    if (!rc && wire_hash(unpacker_input(scratch->unpacker), bytes) != record->header.payload_hash)
        rc = hash_is_wrong(err);
    return rc ? rc
              : unpacker_unpack(scratch->unpacker, record->header.codec, bytes, scratch->vectors,
                                nvectors, err);
}

static int take_plain(struct receive_scratch *scratch, struct record_link *link,
                      const struct record *record, unsigned nvectors, struct error *err)
{
    bool hashed = record->header.flags & WIRE_FLAG_PAYLOAD_HASH;
    struct iovec *consumed = scratch->vectors;
    struct iovec kept[WIRE_MAX_RUNS];
    int rc;

    if (hashed)
        memcpy(kept, scratch->vectors, nvectors * sizeof(kept[0]));
    rc = channel_receive(link->channel, consumed, nvectors, err);
    return !rc && hashed ? check_payload_hash(kept, nvectors, record, err) : rc;
}

int receive_pages_take(struct receive_pages *pages, struct receive_scratch *scratch,
                       struct record_link *link, const struct record *record, struct error *err)
{
    unsigned nruns = 0, nvectors = 0;
    int rc = place_runs(pages, scratch, record, &nruns, &nvectors, err);

    if (rc)
        return rc;
    for (unsigned i = 0; i < nruns; i++) {
        const struct wire_placed_run *run = &scratch->runs[i];

        if (run->kind == WIRE_KIND_ZERO) {
            zero_run(pages, run);
            scratch->zero_pages += run->npages;
            continue;
        }
        if (pages->populate)
            populate_pages(pages->populate, run->region, run->first_page, run->npages);
        mark_written(pages, run);
        scratch->data_pages += run->npages;
    }
    return record->header.codec ? take_packed(scratch, link, record, nvectors, err)
                                : take_plain(scratch, link, record, nvectors, err);
}
