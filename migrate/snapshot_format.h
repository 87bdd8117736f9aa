/* SPDX-License-Identifier: MIT
 *
 * A snapshot file's header and page map: bytes <-> structs. Pure: no I/O, no allocation.
 * docs/snapshot-format.md is the normative text. What is decoded here comes from a file that may
 * be anything: -EPROTO with a line that says what is wrong. */
#ifndef MIGRATE_SNAPSHOT_FORMAT_H
#define MIGRATE_SNAPSHOT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "migrate/endpoint.h"
#include "vmm/base/error.h"

#define SNAPSHOT_VERSION       1
#define SNAPSHOT_HEADER_BYTES  4096u
#define SNAPSHOT_GRANULE_PAGES 512u
#define SNAPSHOT_GRANULE_WORDS (SNAPSHOT_GRANULE_PAGES / 64)
#define SNAPSHOT_GRANULE_BYTES (SNAPSHOT_GRANULE_PAGES * MIGRATE_PAGE_BYTES)
#define SNAPSHOT_ENTRY_BYTES   136u
#define SNAPSHOT_MAX_PAGES     (1ull << 32) /* of a region: 16 TiB */

#define SNAPSHOT_FLAG_RUN 0x0001u /* the guest was running when it was saved */

struct snapshot_region {
    uint64_t gpa;
    uint64_t npages;
    uint64_t offset; /* of the region's first page in the file */
};

struct snapshot_header {
    uint32_t flags;
    unsigned nregions;
    struct snapshot_region region[MIGRATE_MAX_REGIONS];
    uint64_t map_offset;
    uint64_t map_hash; /* XXH3-64 of the whole page map */
    uint64_t records_offset;
    uint64_t records_bytes;
    uint64_t file_bytes;
};

/* 512 pages of one region, or what is left of it. A page in neither bitmap was never touched. */
struct snapshot_entry {
    uint64_t data[SNAPSHOT_GRANULE_WORDS]; /* contents are in the file */
    uint64_t zero[SNAPSHOT_GRANULE_WORDS]; /* was touched and reads as zero */
    uint64_t hash; /* XXH3-64 of the data pages in order; 0 where there are none */
};

/* Gives the regions their places and the map its own behind them. */
void snapshot_header_plan(struct snapshot_header *header, const struct migrate_layout *layout);

uint64_t snapshot_region_granules(const struct snapshot_region *region);
uint64_t snapshot_map_bytes(const struct snapshot_header *header);

void snapshot_put_header(uint8_t *out, const struct snapshot_header *header);
/* Checks all that SNAPSHOT_HEADER_BYTES alone can tell: afterwards no sum of an offset and a length
 * overflows, and header, pages, map and records lie in this order within file_bytes without
 * touching. -EPROTONOSUPPORT for another version. */
int snapshot_get_header(const uint8_t *in, struct snapshot_header *header, struct error *err);

void snapshot_put_entry(uint8_t *out, const struct snapshot_entry *entry);
/* npages: of the region from the granule's first page on, at least 1. */
int snapshot_get_entry(const uint8_t *in, uint64_t npages, struct snapshot_entry *entry,
                       struct error *err);

#endif
