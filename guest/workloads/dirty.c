/* SPDX-License-Identifier: MIT
 *
 * dirty: writes to pages of a set, in a pattern, at a pace or flat out. */
#include "guest/lib/console.h"
#include "guest/user/content.h"
#include "guest/workloads/workloads.h"

enum {
    DIRTY_SET,
    DIRTY_RATE,
    DIRTY_PATTERN,
    DIRTY_SEED,
    DIRTY_STRIDE,
    DIRTY_OFFSET,
    DIRTY_WORDS,
    DIRTY_FILL,
    DIRTY_WAIT,
};

enum { PATTERN_SEQ, PATTERN_RANDOM, PATTERN_ZIPF };
enum { FILL_NONE, FILL_UNIQUE, FILL_ALL };

/* Any prime above the number of pages would do: spreads zipf's ranks over the set, one to one. */
#define RANK_SPREAD 4294967291u

static const struct param params[] = {
    [DIRTY_SET] =
        {.key = "set", .type = PARAM_SIZE, .value = UINT64_MAX, .min = 1, .max = UINT64_MAX},
    [DIRTY_RATE] = {.key = "rate", .type = PARAM_NUMBER, .value = 0, .max = RUN_MAX_RATE},
    [DIRTY_PATTERN] = {.key = "pattern", .type = PARAM_CHOICE, .choices = "seq|random|zipf"},
    [DIRTY_SEED] = {.key = "seed", .type = PARAM_NUMBER, .value = 1, .max = UINT64_MAX},
    [DIRTY_STRIDE] = {.key = "stride", .type = PARAM_NUMBER, .value = 1, .max = UINT32_MAX},
    [DIRTY_OFFSET] = {.key = "offset", .type = PARAM_NUMBER, .value = 0, .max = UINT32_MAX},
    [DIRTY_WORDS] =
        {.key = "words", .type = PARAM_NUMBER, .value = 1, .min = 1, .max = CONTENT_WORDS},
    [DIRTY_FILL] = {.key = "fill", .type = PARAM_CHOICE, .choices = "none|unique|all"},
    [DIRTY_WAIT] = {.key = "wait", .type = PARAM_CHOICE, .choices = "halt|spin"},
    {.key = NULL},
};

static void prepare(struct run *run)
{
    const uint64_t *value = run->params.value;

    page_set_choose(&run->set, value[DIRTY_SET], value[DIRTY_STRIDE], value[DIRTY_OFFSET], false);
    for (unsigned cpu = 0; cpu < run->ncpus; cpu++)
        worker_seed(&run->worker[cpu], value[DIRTY_SEED]);
}

/* The set, or all free RAM: then a migration has more to carry than what is written. */
static void fill(struct run *run, struct worker *worker)
{
    struct page_set filled = run->set;
    uint64_t first, end;

    if (run->params.value[DIRTY_FILL] == FILL_NONE)
        return;
    if (run->params.value[DIRTY_FILL] == FILL_ALL)
        page_set_choose(&filled, UINT64_MAX, 1, 0, false);
    worker_share(worker, run, filled.npages, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        content_fill(page_set_gpa(&filled, i), i);
        worker_beat(worker, 0);
    }
}

/* A rank below n with probability about 1 / rank (zipf, s = 1), without logarithms: first an
 * octave, all being equally likely, then a rank in it. */
static uint64_t zipf_rank(struct worker *worker, uint64_t n)
{
    unsigned octaves = 64 - (unsigned)__builtin_clzl(n);
    uint64_t rank;

    do {
        unsigned octave = (unsigned)worker_random_below(worker, octaves);

        rank = (1ull << octave) + worker_random_below(worker, 1ull << octave) - 1;
    } while (rank >= n);
    return rank;
}

/* Which of its n pages a worker writes as its `done`-th. */
static uint64_t choose(struct worker *worker, uint64_t pattern, uint64_t n, uint64_t done)
{
    switch (pattern) {
    case PATTERN_RANDOM:
        return worker_random_below(worker, n);
    case PATTERN_ZIPF:
        return zipf_rank(worker, n) * RANK_SPREAD % n;
    default:
        return done % n;
    }
}

static void write_page(uint64_t gpa, uint64_t nwords, uint64_t value)
{
    volatile uint64_t *words = (volatile uint64_t *)gpa;
    uint64_t base = content_mix(value + 1);

    for (uint64_t i = 0; i < nwords; i++)
        words[i * CONTENT_WORDS / nwords] = content_word(base, i);
}

static void work(struct run *run, struct worker *worker)
{
    const uint64_t *value = run->params.value;
    uint64_t first, end, n;
    uint64_t done = 0;
    unsigned slice = 0;

    worker_share(worker, run, run->set.npages, &first, &end);
    n = end - first;
    worker_set_rate(worker, run, value[DIRTY_RATE], (enum run_wait)value[DIRTY_WAIT]);
    /* A CPU without a page of its own only keeps the others company. */
    while ((slice = worker_next(worker, run, slice))) {
        if (!n) {
            slice = 0;
            continue;
        }
        for (unsigned i = 0; i < slice; i++, done++) {
            uint64_t page = first + choose(worker, value[DIRTY_PATTERN], n, done);

            write_page(page_set_gpa(&run->set, page), value[DIRTY_WORDS], done << 4 | worker->cpu);
        }
        worker->stats->rounds = done / n;
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("dirty: OK pages=%lu writes=%lu rounds=%lu max_gap_us=%lu tsc_steps=%lu\n",
          run->set.npages, total.work, total.rounds / run->ncpus, total.max_gap_ns / 1000,
          total.tsc_steps);
}

const struct workload workload_dirty = {
    .name = GUEST_WORKLOAD_DIRTY,
    .about = "writes to pages in a pattern, at a pace or flat out",
    .params = params,
    .prepare = prepare,
    .fill = fill,
    .work = work,
    .summary = summary,
};
