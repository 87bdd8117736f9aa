/* SPDX-License-Identifier: MIT */
#include "migrate/snapshot_format.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "migrate/wire.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/size.h"

static const uint8_t magic[8] = {'P', 'F', 'E', 'R', 'S', 'N', 'A', 'P'};

#define REGIONS_AT   96
#define REGION_BYTES 32
#define HASH_AT      (SNAPSHOT_HEADER_BYTES - 8)

static void put_u32(uint8_t *out, uint32_t value)
{
    value = htole32(value);
    memcpy(out, &value, sizeof(value));
}

static uint32_t get_u32(const uint8_t *in)
{
    uint32_t value;

    memcpy(&value, in, sizeof(value));
    return le32toh(value);
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

uint64_t snapshot_region_granules(const struct snapshot_region *region)
{
    return region->npages / SNAPSHOT_GRANULE_PAGES + (region->npages % SNAPSHOT_GRANULE_PAGES != 0);
}

uint64_t snapshot_map_bytes(const struct snapshot_header *header)
{
    uint64_t granules = 0;

    for (unsigned i = 0; i < header->nregions; i++)
        granules += snapshot_region_granules(&header->region[i]);
    return granules * SNAPSHOT_ENTRY_BYTES;
}

void snapshot_header_plan(struct snapshot_header *header, const struct migrate_layout *layout)
{
    uint64_t offset = SNAPSHOT_HEADER_BYTES;

    header->nregions = layout->nregions;
    for (unsigned i = 0; i < layout->nregions; i++) {
        struct snapshot_region *region = &header->region[i];

        /* At huge-page steps: costs nothing in a sparse file, and suits whoever maps it. */
        offset = round_up(offset, SNAPSHOT_GRANULE_BYTES);
        *region = (struct snapshot_region){
            .gpa = layout->region[i].gpa, .npages = layout->region[i].npages, .offset = offset};
        offset += region->npages * MIGRATE_PAGE_BYTES;
    }
    header->map_offset = round_up(offset, MIGRATE_PAGE_BYTES);
    header->records_offset =
        round_up(header->map_offset + snapshot_map_bytes(header), MIGRATE_PAGE_BYTES);
}

void snapshot_put_header(uint8_t *out, const struct snapshot_header *header)
{
    memset(out, 0, SNAPSHOT_HEADER_BYTES);
    memcpy(out, magic, sizeof(magic));
    put_u32(out + 8, SNAPSHOT_VERSION);
    put_u32(out + 12, header->flags);
    put_u32(out + 16, MIGRATE_PAGE_BYTES);
    put_u32(out + 20, header->nregions);
    wire_put_u64(out + 24, header->file_bytes);
    wire_put_u64(out + 32, header->map_offset);
    wire_put_u64(out + 40, snapshot_map_bytes(header));
    wire_put_u64(out + 48, header->map_hash);
    wire_put_u64(out + 56, header->records_offset);
    wire_put_u64(out + 64, header->records_bytes);
    for (unsigned i = 0; i < header->nregions; i++) {
        uint8_t *region = out + REGIONS_AT + (size_t)i * REGION_BYTES;

        wire_put_u64(region, header->region[i].gpa);
        wire_put_u64(region + 8, header->region[i].npages);
        wire_put_u64(region + 16, header->region[i].offset);
    }
    wire_put_u64(out + HASH_AT, wire_hash(out, HASH_AT));
}

/* Regions come in order, in the guest and in the file; *end is where the file's part before this
 * one ends. */
static int check_region(const struct snapshot_header *header, unsigned i, uint64_t *end,
                        struct error *err)
{
    const struct snapshot_region *region = &header->region[i];
    const struct snapshot_region *before = i ? region - 1 : NULL;
    uint64_t limit = UINT64_MAX / MIGRATE_PAGE_BYTES;

    if (region->npages == 0 || region->npages > SNAPSHOT_MAX_PAGES ||
        region->gpa % MIGRATE_PAGE_BYTES ||
        !size_range_within(region->gpa / MIGRATE_PAGE_BYTES, region->npages, limit) ||
        (before && region->gpa < before->gpa + before->npages * MIGRATE_PAGE_BYTES))
        return error_set(err, EPROTO, "region %u of %" PRIu64 " pages at 0x%" PRIx64 " cannot be",
                         i, region->npages, region->gpa);
    if (region->offset % MIGRATE_PAGE_BYTES || region->offset < *end ||
        !size_range_within(region->offset, region->npages * MIGRATE_PAGE_BYTES, header->map_offset))
        return error_set(err, EPROTO, "the pages of region %u are out of place", i);
    *end = region->offset + region->npages * MIGRATE_PAGE_BYTES;
    return 0;
}

static int check_places(const struct snapshot_header *header, uint64_t map_bytes, struct error *err)
{
    uint64_t end = SNAPSHOT_HEADER_BYTES;

    if (header->file_bytes > INT64_MAX || header->map_offset > header->file_bytes)
        return error_set(err, EPROTO, "the page map is out of place");
    for (unsigned i = 0; i < header->nregions; i++) {
        int rc = check_region(header, i, &end, err);

        if (rc)
            return rc;
    }
    if (map_bytes != snapshot_map_bytes(header) || header->map_offset % MIGRATE_PAGE_BYTES ||
        !size_range_within(header->map_offset, map_bytes, header->file_bytes))
        return error_set(err, EPROTO, "the page map is out of place");
    if (header->records_offset % MIGRATE_PAGE_BYTES ||
        header->records_offset < header->map_offset + map_bytes ||
        !size_range_within(header->records_offset, header->records_bytes, header->file_bytes) ||
        header->records_offset + header->records_bytes != header->file_bytes)
        return error_set(err, EPROTO, "the records are out of place");
    return 0;
}

int snapshot_get_header(const uint8_t *in, struct snapshot_header *header, struct error *err)
{
    if (memcmp(in, magic, sizeof(magic)) != 0)
        return error_set(err, EPROTO, "that is no snapshot of pageferry (wrong magic)");
    if (get_u32(in + 8) != SNAPSHOT_VERSION)
        return error_set(err, EPROTONOSUPPORT,
                         "a snapshot of version %" PRIu32 "; this pageferry reads version %d",
                         get_u32(in + 8), SNAPSHOT_VERSION);
    if (wire_get_u64(in + HASH_AT) != wire_hash(in, HASH_AT))
        return error_set(err, EPROTO, "the header is damaged (wrong checksum)");
    memset(header, 0, sizeof(*header));
    header->flags = get_u32(in + 12);
    if (header->flags & ~SNAPSHOT_FLAG_RUN)
        return error_set(err, EPROTO, "unknown flags 0x%" PRIx32, header->flags);
    if (get_u32(in + 16) != MIGRATE_PAGE_BYTES)
        return error_set(err, EPROTO, "pages of %" PRIu32 " bytes, not %u", get_u32(in + 16),
                         MIGRATE_PAGE_BYTES);
    header->nregions = get_u32(in + 20);
    if (header->nregions == 0 || header->nregions > MIGRATE_MAX_REGIONS)
        return error_set(err, EPROTO, "%u regions, not 1 to %d", header->nregions,
                         MIGRATE_MAX_REGIONS);
    header->file_bytes = wire_get_u64(in + 24);
    header->map_offset = wire_get_u64(in + 32);
    header->map_hash = wire_get_u64(in + 48);
    header->records_offset = wire_get_u64(in + 56);
    header->records_bytes = wire_get_u64(in + 64);
    for (unsigned i = 0; i < header->nregions; i++) {
        const uint8_t *region = in + REGIONS_AT + (size_t)i * REGION_BYTES;

        header->region[i].gpa = wire_get_u64(region);
        header->region[i].npages = wire_get_u64(region + 8);
        header->region[i].offset = wire_get_u64(region + 16);
    }
    return check_places(header, wire_get_u64(in + 40), err);
}

void snapshot_put_entry(uint8_t *out, const struct snapshot_entry *entry)
{
    for (size_t i = 0; i < SNAPSHOT_GRANULE_WORDS; i++) {
        wire_put_u64(out + 8 * i, entry->data[i]);
        wire_put_u64(out + 8 * (SNAPSHOT_GRANULE_WORDS + i), entry->zero[i]);
    }
    wire_put_u64(out + 16 * SNAPSHOT_GRANULE_WORDS, entry->hash);
}

int snapshot_get_entry(const uint8_t *in, uint64_t npages, struct snapshot_entry *entry,
                       struct error *err)
{
    for (size_t i = 0; i < SNAPSHOT_GRANULE_WORDS; i++) {
        uint64_t first = i * BITMAP_WORD_BITS;
        uint64_t exist = npages >= first + BITMAP_WORD_BITS ? UINT64_MAX
                         : npages <= first                  ? 0
                                                            : (1ull << (npages - first)) - 1;

        entry->data[i] = wire_get_u64(in + 8 * i);
        entry->zero[i] = wire_get_u64(in + 8 * (SNAPSHOT_GRANULE_WORDS + i));
        if ((entry->data[i] | entry->zero[i]) & ~exist)
            return error_set(err, EPROTO, "the page map has pages past the region's end");
        if (entry->data[i] & entry->zero[i])
            return error_set(err, EPROTO, "the page map has a page that is both data and zero");
    }
    entry->hash = wire_get_u64(in + 16 * SNAPSHOT_GRANULE_WORDS);
    return 0;
}
