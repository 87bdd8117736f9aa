/* SPDX-License-Identifier: MIT
 *
 * memcheck: every page of a set carries its number, a generation and a checksum; every visit
 * verifies the page before it writes the next generation. A page that lost a write, or got one
 * that was never made, ends the guest with GUEST_EXIT_MEMORY.
 *
 * What each page should hold is known from a table of generations elsewhere in RAM, one entry per
 * page, sealed with a check half of its own. The table migrates like everything else, so at the
 * end its sum is compared with the writes that each CPU counted. */
#include "guest/lib/console.h"
#include "guest/user/content.h"
#include "guest/workloads/memcheck_page.h"
#include "guest/workloads/workloads.h"

enum {
    MEMCHECK_SET,
    MEMCHECK_STRIDE,
    MEMCHECK_OFFSET,
    MEMCHECK_ORDER,
    MEMCHECK_RATE,
    MEMCHECK_WORDS,
    MEMCHECK_SEED,
    MEMCHECK_WAIT,
    MEMCHECK_SABOTAGE,
};

enum { ORDER_RANDOM, ORDER_SEQ };
enum { SABOTAGE_NONE, SABOTAGE_WORD, SABOTAGE_STALE, SABOTAGE_TABLE };

static const struct param params[] = {
    [MEMCHECK_SET] =
        {.key = "set", .type = PARAM_SIZE, .value = UINT64_MAX, .min = 1, .max = UINT64_MAX},
    [MEMCHECK_STRIDE] = {.key = "stride", .type = PARAM_NUMBER, .value = 1, .max = UINT32_MAX},
    [MEMCHECK_OFFSET] = {.key = "offset", .type = PARAM_NUMBER, .value = 0, .max = UINT32_MAX},
    [MEMCHECK_ORDER] = {.key = "order", .type = PARAM_CHOICE, .choices = "random|seq"},
    [MEMCHECK_RATE] = {.key = "rate", .type = PARAM_NUMBER, .value = 0, .max = RUN_MAX_RATE},
    [MEMCHECK_WORDS] =
        {.key = "words", .type = PARAM_NUMBER, .value = 8, .min = 1, .max = MEMCHECK_PAYLOAD},
    [MEMCHECK_SEED] = {.key = "seed", .type = PARAM_NUMBER, .value = 1, .max = UINT64_MAX},
    [MEMCHECK_WAIT] = {.key = "wait", .type = PARAM_CHOICE, .choices = "halt|spin"},
    [MEMCHECK_SABOTAGE] = {.key = "sabotage",
                           .type = PARAM_CHOICE,
                           .choices = "none|word|stale|table"},
    {.key = NULL},
};

/* Low half the generation, high half a function of it and of the page. */
static uint64_t table_entry(uint64_t index, uint64_t generation)
{
    return (content_mix(index << 32 ^ generation) & 0xffffffff00000000ull) | generation;
}

static void prepare(struct run *run)
{
    const uint64_t *value = run->params.value;
    uint64_t npages = page_set_free();

    if (value[MEMCHECK_SET] / BOOT_PAGE_BYTES < npages)
        npages = value[MEMCHECK_SET] / BOOT_PAGE_BYTES + 1;
    /* A set has at least its edges, two per range. */
    npages += 2 * (BOOT_MAX_RANGES + 1);
    run->state = page_set_reserve(npages * sizeof(uint64_t));
    page_set_choose(&run->set, value[MEMCHECK_SET], value[MEMCHECK_STRIDE], value[MEMCHECK_OFFSET],
                    true);
    for (unsigned cpu = 0; cpu < run->ncpus; cpu++)
        worker_seed(&run->worker[cpu], value[MEMCHECK_SEED]);
}

static struct memcheck_page *page_at(const struct run *run, uint64_t index)
{
    return (struct memcheck_page *)page_set_gpa(&run->set, index);
}

static void fill(struct run *run, struct worker *worker)
{
    uint64_t *table = run->state;
    uint64_t first, end;

    worker_share(worker, run, run->set.npages, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        memcheck_page_fill(page_at(run, i), run->params.value[MEMCHECK_SEED], i);
        table[i] = table_entry(i, 0);
        worker_beat(worker, 0);
    }
}

static void report(struct run *run, struct worker *worker, uint64_t index, uint64_t generation)
    __attribute__((noreturn));
static void report(struct run *run, struct worker *worker, uint64_t index, uint64_t generation)
{
    const struct memcheck_page *page = page_at(run, index);
    struct memcheck_fault fault =
        memcheck_page_fault(page, run->params.value[MEMCHECK_SEED], index, generation,
                            run->params.value[MEMCHECK_WORDS]);

    print("memcheck: FAULT cpu %u page %lx (number %lu): expected generation %lu, found %lu; "
          "word %u is %lx, expected %lx\n",
          worker->cpu, (uint64_t)page, index, generation, page->generation, fault.word, fault.found,
          fault.expected);
    worker_fault(worker, GUEST_EXIT_MEMORY);
}

/* Verifies a page; returns its generation. */
static uint64_t check_page(struct run *run, struct worker *worker, uint64_t index)
{
    const uint64_t *table = run->state;
    uint64_t entry = table[index];
    uint64_t generation = entry & 0xffffffff;

    if (entry != table_entry(index, generation)) {
        print("memcheck: FAULT cpu %u table entry of page number %lu at %lx is %lx\n", worker->cpu,
              index, (uint64_t)&table[index], entry);
        worker_fault(worker, GUEST_EXIT_MEMORY);
    }
    if (!memcheck_page_ok(page_at(run, index), run->params.value[MEMCHECK_SEED], index, generation,
                          run->params.value[MEMCHECK_WORDS]))
        report(run, worker, index, generation);
    return generation;
}

static void visit(struct run *run, struct worker *worker, uint64_t index)
{
    uint64_t *table = run->state;
    uint64_t generation = check_page(run, worker, index) + 1;

    memcheck_page_write(page_at(run, index), run->params.value[MEMCHECK_SEED], index, generation,
                        run->params.value[MEMCHECK_WORDS]);
    table[index] = table_entry(index, generation);
}

/* Spoils the last page that the worker owns, the way a faulty migration would, to show that it is
 * found out. */
static void spoil(struct run *run, uint64_t index)
{
    struct memcheck_page *page = page_at(run, index);
    uint64_t *table = run->state;

    switch (run->params.value[MEMCHECK_SABOTAGE]) {
    case SABOTAGE_WORD:
        page->payload[MEMCHECK_PAYLOAD / 2] ^= 1;
        break;
    case SABOTAGE_STALE: { /* all of the page, consistent, but of long ago */
        uint64_t generation = table[index] & 0xffffffff;

        memcheck_page_fill(page, run->params.value[MEMCHECK_SEED], index);
        if (!generation)
            table[index] = table_entry(index, 1);
        break;
    }
    case SABOTAGE_TABLE:
        table[index]++;
        break;
    default:
        break;
    }
}

static void work(struct run *run, struct worker *worker)
{
    const uint64_t *value = run->params.value;
    uint64_t first, end, n;
    uint64_t done = 0;
    unsigned slice = 0;

    worker_share(worker, run, run->set.npages, &first, &end);
    n = end - first;
    worker_set_rate(worker, run, value[MEMCHECK_RATE], (enum run_wait)value[MEMCHECK_WAIT]);
    while ((slice = worker_next(worker, run, slice))) {
        if (!n) {
            slice = 0;
            continue;
        }
        for (unsigned i = 0; i < slice; i++, done++)
            visit(run, worker,
                  first + (value[MEMCHECK_ORDER] == ORDER_SEQ ? done % n
                                                              : worker_random_below(worker, n)));
        worker->stats->rounds = done / n;
    }
    spoil(run, end - 1);
}

/* Each CPU judges its neighbour's pages, so that what one wrote is seen by another. */
static void verify(struct run *run, struct worker *worker)
{
    struct worker neighbour = {.cpu = (worker->cpu + 1) % run->ncpus};
    uint64_t first, end;
    uint64_t sum = 0;

    worker_share(&neighbour, run, run->set.npages, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        sum += check_page(run, worker, i);
        worker_beat(worker, 0);
    }
    if (sum != run->worker[neighbour.cpu].stats->work) {
        print("memcheck: FAULT cpu %u made %lu writes, its pages tell of %lu\n", neighbour.cpu,
              run->worker[neighbour.cpu].stats->work, sum);
        worker_fault(worker, GUEST_EXIT_MEMORY);
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("memcheck: OK pages=%lu writes=%lu rounds=%lu max_gap_us=%lu tsc_steps=%lu\n",
          run->set.npages, total.work, total.rounds / run->ncpus, total.max_gap_ns / 1000,
          total.tsc_steps);
}

const struct workload workload_memcheck = {
    .name = GUEST_WORKLOAD_MEMCHECK,
    .about = "verifies every page before it writes it again",
    .params = params,
    .prepare = prepare,
    .fill = fill,
    .work = work,
    .verify = verify,
    .summary = summary,
};
