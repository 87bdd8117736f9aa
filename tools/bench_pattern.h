/* SPDX-License-Identifier: MIT
 *
 * Which pages of a slot are dirtied, and in which order. */
#ifndef TOOLS_BENCH_PATTERN_H
#define TOOLS_BENCH_PATTERN_H

#include <stdint.h>

#include "vmm/base/error.h"

enum bench_pattern {
    BENCH_PATTERN_SPREAD,  /* as far from each other as they can be, ascending: no locality */
    BENCH_PATTERN_CLUSTER, /* BENCH_CLUSTER_PAGES in a row, the rows spread */
    BENCH_PATTERN_RANDOM,  /* anywhere, each at most once, in no order; the same in every run */
};

#define BENCH_CLUSTER_PAGES 16u

int bench_pattern_parse(const char *name, enum bench_pattern *pattern, struct error *err);
const char *bench_pattern_name(enum bench_pattern pattern);

/* Fills pages with `count` different pages of a slot of npages, count <= npages. 0 or -ENOMEM. */
int bench_pattern_fill(enum bench_pattern pattern, uint64_t npages, uint64_t *pages,
                       uint64_t count);

#endif
