/* SPDX-License-Identifier: MIT
 *
 * Loading recorded dirty bitmaps. Nothing is allocated by a number in the file before that number
 * was held against its limit, and nothing is believed that the bits do not show. */
#include "tools/dirty_recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "tools/dirty_recording_format.h"
#include "tools/dirty_recording_input.h"
#include "vmm/base/bitmap.h"

struct reader {
    struct recording_input input;
    struct recorded_bitmap *layout; /* an empty bitmap of each region */
    uint64_t held_bytes;            /* by the recording */
    struct dirty_recording *recording;
    size_t capacity; /* of recording->bitmap */
};

static int take_layout(struct reader *r)
{
    struct recording_layout layout;
    uint32_t nregions;
    int rc = recording_take(&r->input, &layout, sizeof(layout));

    if (rc)
        return rc;
    nregions = le32toh(layout.nregions);
    if (!nregions || nregions > DIRTY_RECORDING_MAX_REGIONS || layout.zero)
        return recording_bad(&r->input, "%" PRIu32 " regions, 1 to %d are possible", nregions,
                             DIRTY_RECORDING_MAX_REGIONS);
    r->layout = calloc(nregions, sizeof(*r->layout));
    if (!r->layout)
        return error_set(r->input.err, ENOMEM, "no memory for a recording's layout");
    for (uint32_t i = 0; i < nregions; i++) {
        struct recording_region region;

        rc = recording_take(&r->input, &region, sizeof(region));
        if (rc)
            return rc;
        r->layout[i] = (struct recorded_bitmap){
            .region = i, .gpa = le64toh(region.gpa), .npages = le64toh(region.npages)};
        if (!r->layout[i].npages || r->layout[i].npages > DIRTY_RECORDING_MAX_PAGES)
            return recording_bad(&r->input, "region %" PRIu32 " of %" PRIu64 " pages", i,
                                 r->layout[i].npages);
        if (r->layout[i].gpa % RECORDING_PAGE_BYTES ||
            r->layout[i].gpa > UINT64_MAX - r->layout[i].npages * RECORDING_PAGE_BYTES)
            return recording_bad(&r->input, "region %" PRIu32 " at 0x%" PRIx64, i,
                                 r->layout[i].gpa);
    }
    r->recording->nregions = nregions;
    return 0;
}

/* Room for one more bitmap, within the limit of all. */
static int grow(struct reader *r, uint64_t words_bytes)
{
    /* Twice, because the array grows by doubling and every allocation has its own overhead. */
    uint64_t bytes = 2 * sizeof(struct recorded_bitmap) + words_bytes;
    struct recorded_bitmap *larger;
    size_t capacity;

    if (bytes > DIRTY_RECORDING_MAX_BYTES - r->held_bytes)
        return error_set(r->input.err, E2BIG, "%.250s: more than %llu MiB of bitmaps",
                         r->input.path, DIRTY_RECORDING_MAX_BYTES >> 20);
    r->held_bytes += bytes;
    if (r->recording->nbitmaps < r->capacity)
        return 0;
    capacity = r->capacity ? 2 * r->capacity : 64;
    larger = realloc(r->recording->bitmap, capacity * sizeof(*larger));
    if (!larger)
        return error_set(r->input.err, ENOMEM, "no memory for a recording");
    r->recording->bitmap = larger;
    r->capacity = capacity;
    return 0;
}

static int take_bitmap(struct reader *r, const struct recording_head *head)
{
    uint32_t nregions = r->recording->nregions;
    uint32_t round = le32toh(head->first), region = le32toh(head->second);
    struct recorded_bitmap *bitmap;
    uint64_t npages;
    size_t nwords;
    int rc;

    if (round != r->recording->nbitmaps / nregions || region != r->recording->nbitmaps % nregions)
        return recording_bad(&r->input, "round %" PRIu32 ", region %" PRIu32 " is out of order",
                             round, region);
    npages = r->layout[region].npages;
    nwords = bitmap_words(npages);
    rc = grow(r, nwords * sizeof(uint64_t));
    if (rc)
        return rc;
    bitmap = &r->recording->bitmap[r->recording->nbitmaps];
    *bitmap = r->layout[region];
    bitmap->round = round;
    bitmap->words = malloc(nwords * sizeof(uint64_t));
    if (!bitmap->words)
        return error_set(r->input.err, ENOMEM, "no memory for a recording");
    r->recording->nbitmaps++;
    rc = recording_take(&r->input, bitmap->words, nwords * sizeof(uint64_t));
    if (rc)
        return rc;
    for (size_t i = 0; i < nwords; i++)
        bitmap->words[i] = le64toh(bitmap->words[i]);
    bitmap->dirty_pages = bitmap_count(bitmap->words, npages);
    if (bitmap->dirty_pages != bitmap_count(bitmap->words, nwords * BITMAP_WORD_BITS))
        return recording_bad(&r->input,
                             "round %" PRIu32 ", region %" PRIu32 ": pages behind its end", round,
                             region);
    if (bitmap->dirty_pages != le64toh(head->dirty_pages))
        return recording_bad(&r->input,
                             "round %" PRIu32 ", region %" PRIu32 ": %" PRIu64
                             " dirty pages, said %" PRIu64,
                             round, region, bitmap->dirty_pages, le64toh(head->dirty_pages));
    return 0;
}

static int take_records(struct reader *r)
{
    struct dirty_recording *recording = r->recording;
    uint64_t dirty_pages = 0;
    struct recording_head head;
    int rc;

    for (;;) {
        rc = recording_take(&r->input, &head, sizeof(head));
        if (rc || le32toh(head.first) == RECORDING_END)
            break;
        rc = take_bitmap(r, &head);
        if (rc)
            return rc;
        dirty_pages += recording->bitmap[recording->nbitmaps - 1].dirty_pages;
    }
    if (rc)
        return rc;
    if (!recording->nbitmaps)
        return recording_bad(&r->input, "it has no rounds");
    recording->nrounds = le32toh(head.second);
    if (recording->nbitmaps % recording->nregions ||
        recording->nrounds != recording->nbitmaps / recording->nregions ||
        dirty_pages != le64toh(head.dirty_pages))
        return recording_bad(&r->input,
                             "its end tells of %" PRIu32 " rounds and %" PRIu64 " dirty pages",
                             recording->nrounds, le64toh(head.dirty_pages));
    return recording_take_end(&r->input);
}

int dirty_recording_load(const char *path, struct dirty_recording **out, struct error *err)
{
    struct dirty_recording *recording = calloc(1, sizeof(*recording));
    struct reader reader = {.recording = recording};
    int rc;

    *out = NULL;
    if (!recording)
        return error_set(err, ENOMEM, "no memory for a recording");
    rc = recording_input_open(&reader.input, path, err);
    if (!rc)
        rc = take_layout(&reader);
    if (!rc)
        rc = take_records(&reader);
    recording_input_close(&reader.input);
    free(reader.layout);
    if (rc)
        dirty_recording_free(recording);
    else
        *out = recording;
    return rc;
}

void dirty_recording_free(struct dirty_recording *recording)
{
    if (!recording)
        return;
    for (unsigned i = 0; i < recording->nbitmaps; i++)
        free(recording->bitmap[i].words);
    free(recording->bitmap);
    free(recording);
}
