/* SPDX-License-Identifier: MIT
 *
 * Samples of a measurement, all kept: there are few, and their quantiles are to be exact. */
#ifndef TOOLS_BENCH_SAMPLES_H
#define TOOLS_BENCH_SAMPLES_H

#include <stdint.h>

struct bench_samples {
    uint64_t *value; /* in the order in which they came */
    unsigned count, capacity;
};

struct bench_summary {
    uint64_t min, median, p99, max;
};

/* 0 or -ENOMEM. */
int bench_samples_init(struct bench_samples *samples, unsigned capacity);
void bench_samples_free(struct bench_samples *samples);

/* There must be room. */
void bench_samples_add(struct bench_samples *samples, uint64_t value);

/* All zero where there is no sample. The quantiles are samples (nearest rank); the median of an
 * even number is the mean of the two in the middle. Sorts the samples. */
struct bench_summary bench_samples_summary(struct bench_samples *samples);

/* value / count; 0 where there is nothing to divide by. */
double bench_per(uint64_t value, uint64_t count);

#endif
