/* SPDX-License-Identifier: MIT
 *
 * The walks that `pageferry bench bitmap` sets side by side, all with the same consumer: how many
 * pages are dirty, and the exclusive or of their numbers. */
#ifndef TOOLS_BENCH_BITMAP_WALKS_H
#define TOOLS_BENCH_BITMAP_WALKS_H

#include "vmm/base/bitmap_path.h"

/* Whole words whose bits past nbits are clear: the loops by byte and by word have no tail mask. */
struct bench_bitmap {
    uint64_t *words;
    uint64_t nbits;
    uint64_t first_gfn; /* of bit 0 */
};

struct bench_sum {
    uint64_t pages;
    uint64_t gfn_xor;
};

struct bench_walk {
    const char *name;   /* byte, word, read, or the path's */
    const char *yields; /* pages, runs, or words, which `read` yields */
    const struct bitmap_path *path;
    struct bench_sum (*walk)(const struct bitmap_path *path, const struct bench_bitmap *bitmap);
};

/* byte, word and read; then runs and pages of each path. */
#define BENCH_WALKS_MAX 9u

enum bench_walk_index { BENCH_WALK_BYTE, BENCH_WALK_WORD, BENCH_WALK_READ, BENCH_WALK_PATHS };

/* All walks that this CPU can do, those of one path only where `only` is not NULL; returns their
 * number. */
unsigned bench_walks(struct bench_walk walks[BENCH_WALKS_MAX], const struct bitmap_path *only);

/* Does the walk sum up pages, and not merely read? */
bool bench_walk_sums(const struct bench_walk *walk);

#endif
