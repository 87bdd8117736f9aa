/* SPDX-License-Identifier: MIT */
#include "migrate/histogram.h"

#define LINEAR_BITS 5u

/* The bucket of a value, and the largest value of a bucket. */
static unsigned bucket_of(uint64_t ns)
{
    unsigned power, index;

    if (ns < HISTOGRAM_LINEAR)
        return (unsigned)ns;
    power = 63u - (unsigned)__builtin_clzll(ns); /* at least LINEAR_BITS */
    index = HISTOGRAM_LINEAR + (power - LINEAR_BITS) * HISTOGRAM_PER_POWER +
            (unsigned)(ns >> (power - 4) & (HISTOGRAM_PER_POWER - 1));
    return index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1;
}

static uint64_t end_of(unsigned bucket)
{
    unsigned power, step;

    if (bucket < HISTOGRAM_LINEAR)
        return bucket;
    power = LINEAR_BITS + (bucket - HISTOGRAM_LINEAR) / HISTOGRAM_PER_POWER;
    step = (bucket - HISTOGRAM_LINEAR) % HISTOGRAM_PER_POWER;
    return ((uint64_t)HISTOGRAM_PER_POWER + step + 1) * (1ull << (power - 4)) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    uint32_t *bucket = &histogram->bucket[bucket_of(ns)];

    histogram->count++;
    histogram->sum_ns += ns;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
    if (*bucket < UINT32_MAX)
        (*bucket)++;
}

uint64_t histogram_quantile(const struct histogram *histogram, unsigned permille)
{
    double wanted = (double)histogram->count * permille / 1000;
    uint64_t seen = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->bucket[i];
        if (seen && (double)seen >= wanted)
            return end_of(i) < histogram->max_ns ? end_of(i) : histogram->max_ns;
    }
    return histogram->max_ns;
}
