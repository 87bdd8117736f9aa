/* SPDX-License-Identifier: MIT */
#include "tools/bench_bitmap_measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmm/base/clock.h"

/* Processor time of this thread: on a busy host the long walks would be interrupted more often than
 * the short ones. */
static uint64_t thread_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static struct bench_sum walk_case(const struct bench_walk *walk, const struct bench_case *measured)
{
    struct bench_sum sum = {0};

    for (unsigned i = 0; i < measured->nbitmaps; i++) {
        struct bench_sum part = walk->walk(walk->path, &measured->bitmap[i]);

        sum.pages += part.pages;
        sum.gfn_xor ^= part.gfn_xor;
    }
    return sum;
}

static int check(const struct bench_walk *walk, const struct bench_case *measured,
                 struct error *err)
{
    struct bench_sum sum = walk_case(walk, measured);

    if (!bench_walk_sums(walk))
        return 0;
    if (sum.pages == measured->sum.pages && sum.gfn_xor == measured->sum.gfn_xor)
        return 0;
    return error_set(err, EIO,
                     "%s, %s by %s: %" PRIu64 " pages (0x%" PRIx64 "), there are %" PRIu64
                     " (0x%" PRIx64 "): the walk is wrong",
                     measured->name, walk->yields, walk->name, sum.pages, sum.gfn_xor,
                     measured->sum.pages, measured->sum.gfn_xor);
}

/* Nanoseconds of one walk, the mean of as many as fill a sample. */
static double sample(const struct bench_walk *walk, const struct bench_case *measured)
{
    /* Few looks at the clock where walks are short. */
    unsigned burst = measured->bytes > 64ull * 1024 ? 1 : 8;
    uint64_t begin = thread_ns();
    uint64_t elapsed;
    unsigned calls = 0;

    do {
        for (unsigned i = 0; i < burst; i++)
            (void)walk_case(walk, measured);
        calls += burst;
        elapsed = thread_ns() - begin;
    } while (elapsed < BENCH_WALK_SAMPLE_NS);
    return (double)elapsed / calls;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *values, unsigned n)
{
    qsort(values, n, sizeof(values[0]), compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double median_ratio(const double *over, const double *under, double *scratch, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        scratch[i] = over[i] / under[i];
    return median(scratch, n);
}

int bench_measure(const struct bench_case *measured, const struct bench_walk *walks,
                  unsigned nwalks, unsigned turns, struct bench_walk_result *results,
                  struct error *err)
{
    double *ns = calloc((size_t)(nwalks + 1) * turns, sizeof(*ns));
    double *scratch;

    if (!ns)
        return error_set(err, ENOMEM, "no memory for %u samples", nwalks * turns);
    scratch = ns + (size_t)nwalks * turns;
    for (unsigned i = 0; i < nwalks; i++) {
        int rc = check(&walks[i], measured, err); /* warms the caches too */

        if (rc) {
            free(ns);
            return rc;
        }
    }
    for (unsigned turn = 0; turn < turns; turn++) {
        for (unsigned k = 0; k < nwalks; k++) {
            unsigned i = (turn + k) % nwalks;

            ns[i * turns + turn] = sample(&walks[i], measured);
        }
    }
    for (unsigned i = 0; i < nwalks; i++) {
        const double *own = ns + (size_t)i * turns;

        results[i].over_byte =
            median_ratio(ns + (size_t)BENCH_WALK_BYTE * turns, own, scratch, turns);
        results[i].over_word =
            median_ratio(ns + (size_t)BENCH_WALK_WORD * turns, own, scratch, turns);
        results[i].over_read =
            median_ratio(ns + (size_t)BENCH_WALK_READ * turns, own, scratch, turns);
        memcpy(scratch, own, turns * sizeof(*own));
        results[i].median_ns = median(scratch, turns);
        results[i].min_ns = scratch[0];
    }
    free(ns);
    return 0;
}
