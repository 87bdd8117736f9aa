/* SPDX-License-Identifier: MIT
 *
 * Pages on their way into a snapshot file, and the map of them: two bits a page. Internal to the
 * snapshot's engine. */
#ifndef MIGRATE_SNAPSHOT_PAGES_H
#define MIGRATE_SNAPSHOT_PAGES_H

#include <stdint.h>

#include "migrate/endpoint.h"
#include "migrate/snapshot_file.h"
#include "migrate/snapshot_format.h"

struct snapshot_pages {
    const struct snapshot_file *file;
    struct migrate_layout layout;
    struct snapshot_header header;                                   /* the places */
    uint64_t *data[MIGRATE_MAX_REGIONS], *zero[MIGRATE_MAX_REGIONS]; /* whole granules */
    uint64_t written_bytes;                                          /* to the file, in all */
};

int snapshot_pages_init(struct snapshot_pages *pages, const struct snapshot_file *file,
                        const struct migrate_layout *layout, struct error *err);
void snapshot_pages_free(struct snapshot_pages *pages);

/* Puts pages of one region to their places; those that read as zero become holes where
 * `look_for_zeros`, and are counted in *nzero. */
int snapshot_pages_put(struct snapshot_pages *pages, unsigned region, uint64_t first,
                       uint64_t count, bool look_for_zeros, uint64_t *nzero, struct error *err);

/* These pages read as zero: what they held before goes. */
int snapshot_pages_put_zero(struct snapshot_pages *pages, unsigned region, uint64_t first,
                            uint64_t count, struct error *err);

/* Called once per granule: nonzero ends it. */
typedef int snapshot_pages_pause(void *opaque, struct error *err);

/* Writes the map, with checksums of what the file holds now, and sets header.map_hash. */
int snapshot_pages_write_map(struct snapshot_pages *pages, snapshot_pages_pause *look, void *opaque,
                             struct error *err);

#endif
