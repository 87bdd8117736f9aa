/* SPDX-License-Identifier: MIT */
#include "tools/binding_recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/log.h"

_Static_assert(MIGRATE_MAX_REGIONS <= DIRTY_RECORDING_MAX_REGIONS, "every layout can be recorded");

int binding_recorder_start(struct binding_recorder *binding, const char *path,
                           const struct migrate_layout *layout, struct error *err)
{
    struct recorded_region regions[MIGRATE_MAX_REGIONS];

    for (unsigned i = 0; i < layout->nregions; i++)
        regions[i] = (struct recorded_region){.gpa = layout->region[i].gpa,
                                              .npages = layout->region[i].npages};
    binding->path = strdup(path);
    if (!binding->path)
        return error_set(err, ENOMEM, "no memory for a recording");
    return dirty_recorder_open(&binding->recorder, path, regions, layout->nregions, err);
}

static void give_up(struct binding_recorder *binding)
{
    dirty_recorder_discard(binding->recorder);
    binding->recorder = NULL;
    log_error("%s: the migration goes on without", binding->err.text);
}

void binding_recorder_claimed(struct binding_recorder *binding, const struct migrate_chunk *chunk,
                              const uint64_t *data, const uint64_t *zero)
{
    if (!binding->recorder)
        return;
    dirty_recorder_add(binding->recorder, chunk->region, chunk->first_page, chunk->npages, data);
    dirty_recorder_add(binding->recorder, chunk->region, chunk->first_page, chunk->npages, zero);
}

void binding_recorder_end_round(struct binding_recorder *binding)
{
    if (binding->recorder && dirty_recorder_end_round(binding->recorder, &binding->err))
        give_up(binding);
}

void binding_recorder_finish(struct binding_recorder *binding, bool whole)
{
    int rc;

    if (!binding->recorder)
        return;
    if (!whole)
        dirty_recorder_drop_round(binding->recorder);
    else
        binding_recorder_end_round(binding);
    if (!binding->recorder)
        return;
    binding->rounds = dirty_recorder_rounds(binding->recorder);
    rc = dirty_recorder_close(binding->recorder, &binding->err);
    binding->recorder = NULL;
    if (!rc)
        return;
    binding->rounds = 0;
    /* A migration that failed before its first round has said so itself. */
    if (rc != -ENODATA)
        log_error("%s", binding->err.text);
}

void binding_recorder_free(struct binding_recorder *binding)
{
    dirty_recorder_discard(binding->recorder);
    free(binding->path);
    *binding = (struct binding_recorder){.path = NULL};
}
