/* SPDX-License-Identifier: MIT
 *
 * Recorded dirty bitmaps: what every round of a migration claimed, in a compressed file. A recorder
 * writes them while a guest migrates, a loader reads them back for the benches.
 * docs/dirty-recording.md has the format. Neither side is thread-safe. */
#ifndef TOOLS_DIRTY_RECORDING_H
#define TOOLS_DIRTY_RECORDING_H

#include <stdint.h>

#include "vmm/base/error.h"

/* How the names of recordings end, by convention: what a directory of them is searched for. */
#define DIRTY_RECORDING_SUFFIX ".dirty"

#define DIRTY_RECORDING_MAX_REGIONS 32
/* 4 TiB of pages in one region, the largest that a machine can have. */
#define DIRTY_RECORDING_MAX_PAGES (1ull << 30)
/* The loader holds no more bitmaps than this at once: a small hostile file can name far more. */
#define DIRTY_RECORDING_MAX_BYTES (1ull << 30)

/* The pages that one round claimed of one region. */
struct recorded_bitmap {
    uint32_t round;  /* from 0, the full copy, on */
    uint32_t region; /* its index in the layout */
    uint64_t gpa;    /* of bit 0 */
    uint64_t npages;
    uint64_t dirty_pages; /* set bits */
    uint64_t *words;      /* bitmap_words(npages), host byte order, tail bits zero */
};

struct dirty_recording {
    uint32_t nrounds;
    uint32_t nregions;
    unsigned nbitmaps; /* nrounds * nregions: by round, then by region */
    struct recorded_bitmap *bitmap;
};

/* Reads a whole recording. The file is taken as hostile: whatever is wrong with it is -EPROTO with
 * one line that begins with the path; -E2BIG where it holds more than DIRTY_RECORDING_MAX_BYTES;
 * else the errno of open or read. *out is NULL on failure. */
int dirty_recording_load(const char *path, struct dirty_recording **out, struct error *err);
void dirty_recording_free(struct dirty_recording *recording); /* NULL is fine */

/* One region as the recorder is told of it. */
struct recorded_region {
    uint64_t gpa;
    uint64_t npages; /* 1…DIRTY_RECORDING_MAX_PAGES */
};

struct dirty_recorder;

/* Begins a recording of these regions in a new file beside `path`. The memory that it takes is one
 * bitmap per region. -EINVAL where something that is no regular file is at `path`. */
int dirty_recorder_open(struct dirty_recorder **out, const char *path,
                        const struct recorded_region *regions, unsigned nregions,
                        struct error *err);

/* Adds a claimed chunk to the round that is under way; begins one where none is. first_page is a
 * multiple of 64, npages too unless the chunk ends the region (assert). Does no I/O. */
void dirty_recorder_add(struct dirty_recorder *recorder, unsigned region, uint64_t first_page,
                        uint64_t npages, const uint64_t *words);

/* Compresses and writes the round that is under way; nothing where none is. After a failure the
 * recorder may only be discarded. */
int dirty_recorder_end_round(struct dirty_recorder *recorder, struct error *err);

/* Forgets the round that is under way: it came to no end. */
void dirty_recorder_drop_round(struct dirty_recorder *recorder);

/* Rounds that were ended. */
uint32_t dirty_recorder_rounds(const struct dirty_recorder *recorder);

/* Ends the last round and puts the complete file, synced, in the place of `path`. On failure, which
 * a recording without a round is too, nothing is left, and what was at `path` before is untouched.
 * Frees the recorder in any case. */
int dirty_recorder_close(struct dirty_recorder *recorder, struct error *err);

/* Gives up: removes what was written and frees the recorder. NULL is fine. */
void dirty_recorder_discard(struct dirty_recorder *recorder);

#endif
