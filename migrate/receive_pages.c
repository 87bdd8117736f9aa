/* SPDX-License-Identifier: MIT */
#include "migrate/receive_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "vmm/base/bitmap.h"

/* Stays in a core's own cache between the socket and the file. */
#define PIECE_BYTES (256u * 1024)

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

static int write_file(const struct migrate_region *region, const uint8_t *bytes, size_t count,
                      uint64_t offset, struct error *err)
{
    while (count) {
        ssize_t put = pwrite(region->file, bytes, count, (off_t)offset);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return error_set(err, put ? errno : EIO, "writing guest RAM to its file: %s",
                             put ? strerror(errno) : "nothing was written");
        bytes += put;
        count -= (size_t)put;
        offset += (uint64_t)put;
    }
    return 0;
}

/* Where in the record's data runs the next byte belongs. */
struct place {
    unsigned run;
    uint64_t done; /* bytes of it */
};

/* `count` bytes that follow one another on the link to where they belong. */
static int write_piece(const struct receive_pages *pages, const struct receive_scratch *scratch,
                       struct place *place, size_t count, struct error *err)
{
    const uint8_t *bytes = scratch->piece;

    while (count) {
        const struct wire_placed_run *run = &scratch->runs[place->run];
        uint64_t left = run->npages * MIGRATE_PAGE_BYTES - place->done;
        size_t part = left < count ? (size_t)left : count;
        int rc = 0;

        if (run->kind == WIRE_KIND_DATA && part) {
            rc = write_file(&pages->layout.region[run->region], bytes, part,
                            run->first_page * MIGRATE_PAGE_BYTES + place->done, err);
            bytes += part;
            count -= part;
            place->done += part;
        }
        if (rc)
            return rc;
        if (run->kind != WIRE_KIND_DATA || part == left)
            *place = (struct place){.run = place->run + 1};
    }
    return 0;
}

/* As take_plain(), by way of the files that RAM is: what is mapped nowhere yet need not be. */
static int take_through_files(const struct receive_pages *pages, struct receive_scratch *scratch,
                              struct record_link *link, const struct record *record,
                              struct error *err)
{
    struct place place = {.run = 0};
    uint64_t left = record->header.payload_bytes;
    int rc = 0;

    if (!scratch->piece)
        scratch->piece = malloc(PIECE_BYTES);
    if (!scratch->piece)
        return error_set(err, ENOMEM, "no memory to receive pages");
    while (!rc && left) {
        size_t bytes = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        struct iovec vector = {.iov_base = scratch->piece, .iov_len = bytes};

        rc = channel_receive(link->channel, &vector, 1, err);
        if (!rc)
            rc = write_piece(pages, scratch, &place, bytes, err);
        left -= bytes;
    }
    return rc;
}

static void populate_runs(struct receive_pages *pages, const struct receive_scratch *scratch,
                          unsigned nruns)
{
    for (unsigned i = 0; pages->populate && i < nruns; i++) {
        const struct wire_placed_run *run = &scratch->runs[i];

        if (run->kind == WIRE_KIND_DATA)
            populate_pages(pages->populate, run->region, run->first_page, run->npages);
    }
}

void receive_scratch_free(struct receive_scratch *scratch)
{
    unpacker_close(scratch->unpacker);
    free(scratch->piece);
}

int receive_pages_take(struct receive_pages *pages, struct receive_scratch *scratch,
                       struct record_link *link, const struct record *record, struct error *err)
{
    bool hashed = record->header.flags & WIRE_FLAG_PAYLOAD_HASH;
    bool through_files =
        !record->header.codec && !hashed && migrate_layout_in_files(&pages->layout);
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
        mark_written(pages, run);
        scratch->data_pages += run->npages;
    }
    if (!through_files)
        populate_runs(pages, scratch, nruns);
    if (record->header.codec)
        rc = take_packed(scratch, link, record, nvectors, err);
    else if (through_files)
        rc = take_through_files(pages, scratch, link, record, err);
    else
        rc = take_plain(scratch, link, record, nvectors, err);
    /* What came through a file is there, and only to be mapped for the guest. */
    if (!rc && through_files)
        populate_runs(pages, scratch, nruns);
    return rc;
}
