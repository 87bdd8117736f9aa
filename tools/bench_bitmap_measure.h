/* SPDX-License-Identifier: MIT
 *
 * Times every walk over every case, by turns, so that a moment in which the host was slow hits all
 * of them. */
#ifndef TOOLS_BENCH_BITMAP_MEASURE_H
#define TOOLS_BENCH_BITMAP_MEASURE_H

#include "tools/bench_bitmap_cases.h"

struct bench_walk_result {
    double min_ns, median_ns; /* one walk over all of the case's bitmaps */
    /* How often as fast as the loop by byte, the loop by word, and plain reading: medians of the
     * ratios within each turn. */
    double over_byte, over_word, over_read;
};

/* The results of one case, in the order of the walks. Every turn measures each walk once, for about
 * BENCH_WALK_SAMPLE_NS or one walk if that takes longer. -EIO with a line where a walk found
 * something else than is there. */
int bench_measure(const struct bench_case *measured, const struct bench_walk *walks,
                  unsigned nwalks, unsigned turns, struct bench_walk_result *results,
                  struct error *err);

#define BENCH_WALK_SAMPLE_NS 50000u

#endif
