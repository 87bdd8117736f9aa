/* SPDX-License-Identifier: MIT
 *
 * Latencies in buckets whose width grows with the value, so that every quantile is known to within
 * 1/16 of itself in a fixed 4 KiB: the idea of Gil Tene's HdrHistogram, whose C library is not in
 * Debian 12. Not locked: the caller orders threads. */
#ifndef MIGRATE_HISTOGRAM_H
#define MIGRATE_HISTOGRAM_H

#include <stdint.h>

/* Values up to 2^5 have a bucket each; each doubling after it has 16, up to 2^36 ns (over a
 * minute); what is larger counts as that. */
#define HISTOGRAM_LINEAR    32u
#define HISTOGRAM_PER_POWER 16u
#define HISTOGRAM_BUCKETS   (HISTOGRAM_LINEAR + 31u * HISTOGRAM_PER_POWER)

struct histogram {
    uint64_t count;
    uint64_t max_ns;
    uint64_t sum_ns;
    uint32_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t ns);

/* The least value that at least `permille` of a thousand values do not exceed, rounded up to its
 * bucket's end, never above the largest; 0 where there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned permille);

#endif
