/* SPDX-License-Identifier: MIT */
#include "migrate/snapshot_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "migrate/snapshot_read.h"
#include "vmm/base/bitmap.h"

int snapshot_pages_init(struct snapshot_pages *pages, const struct snapshot_file *file,
                        const struct migrate_layout *layout, struct error *err)
{
    pages->file = file;
    pages->layout = *layout;
    snapshot_header_plan(&pages->header, layout);
    for (unsigned i = 0; i < layout->nregions; i++) {
        size_t words =
            (size_t)snapshot_region_granules(&pages->header.region[i]) * SNAPSHOT_GRANULE_WORDS;

        pages->data[i] = calloc(words, sizeof(uint64_t));
        pages->zero[i] = calloc(words, sizeof(uint64_t));
        if (!pages->data[i] || !pages->zero[i])
            return error_set(err, ENOMEM, "no memory for the snapshot's page map");
    }
    /* All of the page area, empty: what is never written stays a hole. */
    if (ftruncate(file->fd, (off_t)pages->header.records_offset))
        return error_set(err, errno, "%.300s: cannot be made %" PRIu64 " bytes long: %s",
                         file->path, pages->header.records_offset, strerror(errno));
    return 0;
}

void snapshot_pages_free(struct snapshot_pages *pages)
{
    for (unsigned i = 0; i < MIGRATE_MAX_REGIONS; i++) {
        free(pages->data[i]);
        free(pages->zero[i]);
    }
}

static uint64_t place_of(const struct snapshot_pages *pages, unsigned region, uint64_t page)
{
    return pages->header.region[region].offset + page * MIGRATE_PAGE_BYTES;
}

static int put_data(struct snapshot_pages *pages, unsigned region, uint64_t first, uint64_t count,
                    struct error *err)
{
    size_t bytes = (size_t)(count * MIGRATE_PAGE_BYTES);
    int rc = snapshot_file_write(pages->file,
                                 pages->layout.region[region].hva + first * MIGRATE_PAGE_BYTES,
                                 bytes, place_of(pages, region, first), err);

    if (rc)
        return rc;
    pages->written_bytes += bytes;
    bitmap_set_range(pages->data[region], first, count);
    for (uint64_t page = first; page < first + count; page++)
        bitmap_clear(pages->zero[region], page);
    return 0;
}

int snapshot_pages_put_zero(struct snapshot_pages *pages, unsigned region, uint64_t first,
                            uint64_t count, struct error *err)
{
    uint64_t *data = pages->data[region];
    uint64_t position = first;
    struct bitmap_run run;

    while (bitmap_next_run(data, first + count, &position, &run)) {
        if (fallocate(pages->file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      (off_t)place_of(pages, region, run.first),
                      (off_t)(run.count * MIGRATE_PAGE_BYTES)) &&
            errno != EOPNOTSUPP && errno != EINTR) /* the map says zero all the same */
            return error_set(err, errno, "%.300s: punching a hole at byte %" PRIu64 ": %s",
                             pages->file->path, place_of(pages, region, run.first),
                             strerror(errno));
        for (uint64_t page = run.first; page < run.first + run.count; page++)
            bitmap_clear(data, page);
    }
    bitmap_set_range(pages->zero[region], first, count);
    return 0;
}

static bool reads_as_zero(const uint8_t *page)
{
    const uint64_t *words = (const uint64_t *)(const void *)page;

    if (words[0] || words[1] || words[63] || words[511])
        return false;
    return memcmp(page, page + sizeof(uint64_t), MIGRATE_PAGE_BYTES - sizeof(uint64_t)) == 0;
}

int snapshot_pages_put(struct snapshot_pages *pages, unsigned region, uint64_t first,
                       uint64_t count, bool look_for_zeros, uint64_t *nzero, struct error *err)
{
    const uint8_t *hva = pages->layout.region[region].hva;
    uint64_t end = first + count;
    int rc = 0;

    if (!look_for_zeros)
        return put_data(pages, region, first, count, err);
    /* A page that changes after the look is in the log again. */
    while (!rc && first < end) {
        bool zero = reads_as_zero(hva + first * MIGRATE_PAGE_BYTES);
        uint64_t next = first + 1;

        while (next < end && reads_as_zero(hva + next * MIGRATE_PAGE_BYTES) == zero)
            next++;
        if (zero) {
            rc = snapshot_pages_put_zero(pages, region, first, next - first, err);
            *nzero += next - first;
        } else {
            rc = put_data(pages, region, first, next - first, err);
        }
        first = next;
    }
    return rc;
}

static void fill_entry(const struct snapshot_pages *pages, unsigned region, uint64_t granule,
                       struct snapshot_entry *entry)
{
    size_t word = (size_t)granule * SNAPSHOT_GRANULE_WORDS;

    memcpy(entry->data, pages->data[region] + word, sizeof(entry->data));
    memcpy(entry->zero, pages->zero[region] + word, sizeof(entry->zero));
    entry->hash = 0;
}

static int write_entries(struct snapshot_pages *pages, uint8_t *contents, XXH3_state_t *state,
                         snapshot_pages_pause *look, void *opaque, struct error *err)
{
    uint64_t offset = pages->header.map_offset;

    for (unsigned r = 0; r < pages->header.nregions; r++) {
        const struct snapshot_region *region = &pages->header.region[r];

        for (uint64_t g = 0; g < snapshot_region_granules(region); g++) {
            struct snapshot_entry entry;
            uint8_t bytes[SNAPSHOT_ENTRY_BYTES];
            int rc = look(opaque, err);

            fill_entry(pages, r, g, &entry);
            if (!rc)
                rc = snapshot_read_granule(pages->file->fd, pages->file->path,
                                           region->offset + g * SNAPSHOT_GRANULE_BYTES, entry.data,
                                           contents, &entry.hash, err);
            if (rc)
                return rc;
            snapshot_put_entry(bytes, &entry);
            (void)XXH3_64bits_update(state, bytes, sizeof(bytes));
            rc = snapshot_file_write(pages->file, bytes, sizeof(bytes), offset, err);
            if (rc)
                return rc;
            offset += sizeof(bytes);
            pages->written_bytes += sizeof(bytes);
        }
    }
    pages->header.map_hash = XXH3_64bits_digest(state);
    return 0;
}

int snapshot_pages_write_map(struct snapshot_pages *pages, snapshot_pages_pause *look, void *opaque,
                             struct error *err)
{
    uint8_t *contents = malloc(SNAPSHOT_GRANULE_BYTES);
    XXH3_state_t *state = XXH3_createState();
    int rc;

    if (!contents || !state || XXH3_64bits_reset(state) == XXH_ERROR)
        rc = error_set(err, ENOMEM, "no memory for the snapshot's checksums");
    else
        rc = write_entries(pages, contents, state, look, opaque, err);
    (void)XXH3_freeState(state);
    free(contents);
    return rc;
}
