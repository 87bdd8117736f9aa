/* SPDX-License-Identifier: MIT
 *
 * Runs of pages gathered into one PAGES record whose vectors point straight into guest RAM. */
#ifndef MIGRATE_BATCH_H
#define MIGRATE_BATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "migrate/channel.h"
#include "migrate/endpoint.h"
#include "migrate/wire.h"

struct batch {
    uint64_t max_bytes; /* payload at which the batch is full */
    uint64_t payload_bytes;
    unsigned nruns;
    unsigned nvectors; /* vector 0 is the head */
    uint8_t head[WIRE_HEADER_BYTES + WIRE_MAX_META_BYTES];
    struct iovec vectors[1 + WIRE_MAX_RUNS];
    bool in_files;                                /* all of the payload */
    struct channel_file files[1 + WIRE_MAX_RUNS]; /* then: of each vector but the first */
};

void batch_init(struct batch *batch, uint64_t max_bytes);

/* Adds as many of the run's pages as fit and returns how many (0: the batch is full). kind is
 * WIRE_KIND_DATA or WIRE_KIND_ZERO or WIRE_KIND_POPULATED. */
uint64_t batch_add(struct batch *batch, const struct migrate_region *region, uint64_t first_page,
                   uint64_t npages, enum wire_kind kind);

static inline bool batch_empty(const struct batch *batch)
{
    return batch->nruns == 0;
}

/* Sets header->meta_bytes and payload_bytes and closes vector 0; then batch->vectors can be sent.
 */
void batch_finish(struct batch *batch, struct wire_header *header);

/* Ready for the next record. */
void batch_reset(struct batch *batch);

#endif
