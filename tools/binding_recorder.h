/* SPDX-License-Identifier: MIT
 *
 * The recorder of one migration's dirty bitmaps, which must never harm the migration: its first
 * failure is logged and remembered, what it wrote is removed, and from then on it does nothing. */
#ifndef TOOLS_BINDING_RECORDER_H
#define TOOLS_BINDING_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/endpoint.h"
#include "tools/dirty_recording.h"

struct binding_recorder {
    char *path;                      /* NULL: nothing is to be recorded */
    struct dirty_recorder *recorder; /* NULL: not any more */
    uint32_t rounds;                 /* in the finished file */
    struct error err;                /* why there is none; empty where there is one */
};

/* Begins a recording. A failure here is the user's to see before anything else happens. */
int binding_recorder_start(struct binding_recorder *binding, const char *path,
                           const struct migrate_layout *layout, struct error *err);

/* The chunk's claimed pages: those with data, and those that read as zero. */
void binding_recorder_claimed(struct binding_recorder *binding, const struct migrate_chunk *chunk,
                              const uint64_t *data, const uint64_t *zero);

/* Writes the round that is under way, if there is one. */
void binding_recorder_end_round(struct binding_recorder *binding);

/* Puts the file in its place, if that has not happened yet. Unless `whole`, the round under way
 * came to no end and is left out. */
void binding_recorder_finish(struct binding_recorder *binding, bool whole);

void binding_recorder_free(struct binding_recorder *binding);

#endif
