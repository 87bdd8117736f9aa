/* SPDX-License-Identifier: MIT
 *
 * One pass over guest RAM: claim chunk by chunk, send what is dirty. Internal to the source's
 * engine. */
#ifndef MIGRATE_PRECOPY_ROUND_H
#define MIGRATE_PRECOPY_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/batch.h"
#include "migrate/pace.h"
#include "migrate/precopy.h"
#include "migrate/record.h"
#include "migrate/streams.h"

/* The engine's working memory: independent of guest size. */
struct precopy_copier {
    const struct migrate_source *source;
    struct migrate_layout layout;
    struct streams streams;
    struct record *record; /* scratch for what the destination says */
    struct progress *progress;
    struct pace pace;
    uint64_t paced_bytes; /* that `pace` knows of */
    uint64_t chunk_pages;
    uint64_t *data, *zero;         /* one chunk's words each */
    struct batch *batch;           /* the one that is being filled, or NULL */
    uint64_t begin_ns, begin_sent; /* of the round under way, for the bandwidth that people see */
};

/* Allocates for the layout, with `first` as stream 0; precopy_copier_free() also after a failure.
 */
int precopy_copier_init(struct precopy_copier *copier, const struct precopy_options *options,
                        struct record_link *first, struct error *err);
void precopy_copier_free(struct precopy_copier *copier);

/* The options that the streams need to know. */
struct streams_options precopy_streams_options(const struct precopy_options *options);

/* Tells the destination which parts of RAM hold something, in granules of PRECOPY_GRANULE_PAGES. */
#define PRECOPY_GRANULE_PAGES 512u
int precopy_send_extents(struct precopy_copier *copier, struct error *err);

/* Claims and sends everything that is pending, about pending_pages, then SYNC(round) on every
 * stream. */
int precopy_send_round(struct precopy_copier *copier, uint32_t round, uint64_t pending_pages,
                       bool last, struct error *err);

#endif
