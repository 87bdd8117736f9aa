/* SPDX-License-Identifier: MIT */
#include "migrate/batch.h"

#include <string.h>

void batch_init(struct batch *batch, uint64_t max_bytes)
{
    batch->max_bytes = max_bytes;
    batch_reset(batch);
}

void batch_reset(struct batch *batch)
{
    batch->payload_bytes = 0;
    batch->nruns = 0;
    batch->nvectors = 1;
    batch->in_files = true;
}

uint64_t batch_add(struct batch *batch, const struct migrate_region *region, uint64_t first_page,
                   uint64_t npages, enum wire_kind kind)
{
    struct wire_run run = {.gpa = region->gpa + first_page * MIGRATE_PAGE_BYTES, .kind = kind};
    uint64_t room = UINT32_MAX;

    if (batch->nruns == WIRE_MAX_RUNS)
        return 0;
    if (kind == WIRE_KIND_DATA)
        room = (batch->max_bytes - batch->payload_bytes) / MIGRATE_PAGE_BYTES;
    if (npages > room)
        npages = room;
    if (npages == 0)
        return 0;
    run.npages = (uint32_t)npages;
    wire_put_run(batch->head + WIRE_HEADER_BYTES + batch->nruns * WIRE_RUN_BYTES, &run);
    batch->nruns++;
    if (kind == WIRE_KIND_DATA) {
        batch->in_files = batch->in_files && region->has_file;
        batch->files[batch->nvectors] =
            (struct channel_file){.fd = region->file, .offset = first_page * MIGRATE_PAGE_BYTES};
        batch->vectors[batch->nvectors++] =
            (struct iovec){.iov_base = region->hva + first_page * MIGRATE_PAGE_BYTES,
                           .iov_len = (size_t)(npages * MIGRATE_PAGE_BYTES)};
        batch->payload_bytes += npages * MIGRATE_PAGE_BYTES;
    }
    return npages;
}

void batch_finish(struct batch *batch, struct wire_header *header)
{
    header->meta_bytes = batch->nruns * WIRE_RUN_BYTES;
    header->payload_bytes = batch->payload_bytes;
    batch->vectors[0] =
        (struct iovec){.iov_base = batch->head, .iov_len = WIRE_HEADER_BYTES + header->meta_bytes};
}
