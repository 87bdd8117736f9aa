/* SPDX-License-Identifier: MIT
 *
 * PAGES records into guest RAM, and which pages they have written. Internal to the destination's
 * engine. */
#ifndef MIGRATE_RECEIVE_PAGES_H
#define MIGRATE_RECEIVE_PAGES_H

#include <stdint.h>
#include <sys/uio.h>

#include "migrate/endpoint.h"
#include "migrate/packer.h"
#include "migrate/populate.h"
#include "migrate/record.h"

/* RAM starts empty and reads as zero, so a page needs zeroing only if this migration wrote it: one
 * bit per page tells, and nothing is read to find out. Shared by all streams: words are atomic. */
struct receive_pages {
    struct migrate_layout layout;
    uint64_t *written[MIGRATE_MAX_REGIONS];
    struct populate *populate; /* NULL: pages are touched as they arrive */
};

/* What one stream needs to take its records. */
struct receive_scratch {
    uint64_t data_pages, zero_pages; /* taken so far */
    struct unpacker *unpacker;       /* from the first compressed record on */
    struct wire_placed_run runs[WIRE_MAX_RUNS];
    struct iovec vectors[WIRE_MAX_RUNS];
    uint8_t *piece; /* what goes through a file, on its way; from the first on */
};

int receive_pages_init(struct receive_pages *pages, const struct migrate_layout *layout,
                       struct error *err);
void receive_pages_free(struct receive_pages *pages);

/* Checks every run of the record against the layout, then receives the payload where it belongs.
 * Nothing is written before everything was checked. Several threads may take pages, each with a
 * scratch of its own, all zero before the first. */
int receive_pages_take(struct receive_pages *pages, struct receive_scratch *scratch,
                       struct record_link *link, const struct record *record, struct error *err);
void receive_scratch_free(struct receive_scratch *scratch);

#endif
