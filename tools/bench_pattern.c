/* SPDX-License-Identifier: MIT */
#include "tools/bench_pattern.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/bitmap.h"

static const char *const names[] = {
    [BENCH_PATTERN_SPREAD] = "spread",
    [BENCH_PATTERN_CLUSTER] = "cluster",
    [BENCH_PATTERN_RANDOM] = "random",
};

#define NPATTERNS (sizeof(names) / sizeof(names[0]))

int bench_pattern_parse(const char *name, enum bench_pattern *pattern, struct error *err)
{
    for (size_t i = 0; i < NPATTERNS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *pattern = (enum bench_pattern)i;
            return 0;
        }
    }
    return error_set(err, EINVAL, "'%s' is not a pattern: write spread, cluster or random", name);
}

const char *bench_pattern_name(enum bench_pattern pattern)
{
    return (size_t)pattern < NPATTERNS ? names[pattern] : "?";
}

/* floor(i * npages / count) without the product, which may not fit. */
static uint64_t spread(uint64_t i, uint64_t npages, uint64_t count)
{
    return npages / count * i + (uint64_t)((unsigned __int128)(npages % count) * i / count);
}

/* Row r begins where it would if rows were single pages of a slot so many pages shorter. */
static void fill_clusters(uint64_t npages, uint64_t *pages, uint64_t count)
{
    uint64_t nrows = (count + BENCH_CLUSTER_PAGES - 1) / BENCH_CLUSTER_PAGES;
    uint64_t free_pages = npages - count;

    for (uint64_t i = 0; i < count; i++)
        pages[i] = spread(i / BENCH_CLUSTER_PAGES, free_pages, nrows) + i;
}

static uint64_t next_random(uint64_t *state)
{
    /* xorshift64*: plenty for this. */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

/* Floyd's sampling: one number for each page, whatever the density; then a shuffle. */
static int fill_random(uint64_t npages, uint64_t *pages, uint64_t count)
{
    uint64_t *taken = calloc(bitmap_words(npages), sizeof(uint64_t));
    uint64_t state = 0x9e3779b97f4a7c15ull;

    if (!taken)
        return -ENOMEM;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t top = npages - count + i;
        uint64_t page = next_random(&state) % (top + 1);

        pages[i] = bitmap_test(taken, page) ? top : page;
        bitmap_set(taken, pages[i]);
    }
    for (uint64_t i = count; i > 1; i--) {
        uint64_t j = next_random(&state) % i;
        uint64_t page = pages[i - 1];

        pages[i - 1] = pages[j];
        pages[j] = page;
    }
    free(taken);
    return 0;
}

int bench_pattern_fill(enum bench_pattern pattern, uint64_t npages, uint64_t *pages, uint64_t count)
{
    assert(count && count <= npages);
    if (pattern == BENCH_PATTERN_RANDOM)
        return fill_random(npages, pages, count);
    if (pattern == BENCH_PATTERN_CLUSTER) {
        fill_clusters(npages, pages, count);
        return 0;
    }
    for (uint64_t i = 0; i < count; i++)
        pages[i] = spread(i, npages, count);
    return 0;
}
