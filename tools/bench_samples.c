/* SPDX-License-Identifier: MIT */
#include "tools/bench_samples.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int bench_samples_init(struct bench_samples *samples, unsigned capacity)
{
    *samples = (struct bench_samples){.capacity = capacity};
    samples->value = calloc(capacity, sizeof(samples->value[0]));
    return samples->value ? 0 : -ENOMEM;
}

void bench_samples_free(struct bench_samples *samples)
{
    free(samples->value);
    *samples = (struct bench_samples){0};
}

void bench_samples_add(struct bench_samples *samples, uint64_t value)
{
    assert(samples->count < samples->capacity);
    samples->value[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

struct bench_summary bench_samples_summary(struct bench_samples *samples)
{
    unsigned n = samples->count;
    uint64_t *value = samples->value;
    struct bench_summary summary = {0};

    if (!n)
        return summary;
    qsort(value, n, sizeof(value[0]), compare);
    summary.min = value[0];
    summary.median =
        n % 2 ? value[n / 2] : value[n / 2 - 1] + (value[n / 2] - value[n / 2 - 1]) / 2;
    summary.p99 = value[(n * 99ull + 99) / 100 - 1];
    summary.max = value[n - 1];
    return summary;
}

double bench_per(uint64_t value, uint64_t count)
{
    return count ? (double)value / (double)count : 0;
}
