/* SPDX-License-Identifier: MIT
 *
 * What `pageferry bench bitmap` walks: bitmaps made up for every density, and recorded ones. */
#ifndef TOOLS_BENCH_BITMAP_CASES_H
#define TOOLS_BENCH_BITMAP_CASES_H

#include "tools/bench_bitmap_walks.h"
#include "vmm/base/error.h"

#define BENCH_CASE_NAME_BYTES 64

/* Bitmaps that are walked one after the other. */
struct bench_case {
    char name[BENCH_CASE_NAME_BYTES];
    bool recorded;
    struct bench_bitmap *bitmap;
    unsigned nbitmaps;
    uint64_t bytes;       /* of all bitmaps */
    struct bench_sum sum; /* what every walk must find */
    uint64_t runs;
};

struct bench_cases {
    struct bench_case *at;
    unsigned count;
};

/* All densities, each in 16 bitmaps of 32 KiB and in one of 512; the same ones in every run.
 * -ENOMEM. */
int bench_cases_add_synthetic(struct bench_cases *cases, struct error *err);

/* Every recording (*.dirty) of a directory, by name, or the one that is named itself: the rounds
 * after the full copy. -ENOENT where there is none, else the loader's errno, and a line. */
int bench_cases_add_corpus(struct bench_cases *cases, const char *path, struct error *err);

void bench_cases_free(struct bench_cases *cases);

#endif
