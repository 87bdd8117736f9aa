/* SPDX-License-Identifier: MIT
 *
 * stamp: has the probe device write into pages of a set, as a DMA engine would, and checks that
 * each page holds the stamp that it got last. No CPU writes to these pages during the run, so only
 * a VMM that marks its own stores migrates them right. CPU 0 does it; the others halt. */
#include "guest/abi.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/workloads/probe.h"
#include "guest/workloads/workloads.h"

enum {
    STAMP_SET,
    STAMP_STRIDE,
    STAMP_OFFSET,
    STAMP_ORDER,
    STAMP_RATE,
    STAMP_WINDOW,
    STAMP_SEED,
    STAMP_SABOTAGE,
};

enum { ORDER_RANDOM, ORDER_SEQ };
enum { CHOOSE_BOTH, CHOOSE_PORT, CHOOSE_MMIO };

#define IDLE_HZ 100

static const struct param params[] = {
    [STAMP_SET] =
        {.key = "set", .type = PARAM_SIZE, .value = 16u << 20, .min = 1, .max = UINT64_MAX},
    [STAMP_STRIDE] = {.key = "stride", .type = PARAM_NUMBER, .value = 1, .max = UINT32_MAX},
    [STAMP_OFFSET] = {.key = "offset", .type = PARAM_NUMBER, .value = 0, .max = UINT32_MAX},
    [STAMP_ORDER] = {.key = "order", .type = PARAM_CHOICE, .choices = "random|seq"},
    [STAMP_RATE] = {.key = "rate", .type = PARAM_NUMBER, .value = 0, .max = RUN_MAX_RATE},
    [STAMP_WINDOW] = {.key = "window", .type = PARAM_CHOICE, .choices = "both|port|mmio"},
    [STAMP_SEED] = {.key = "seed", .type = PARAM_NUMBER, .value = 1, .max = UINT64_MAX},
    [STAMP_SABOTAGE] = {.key = "sabotage", .type = PARAM_CHOICE, .choices = "none|page"},
    {.key = NULL},
};

struct stamp {
    uint64_t sequence; /* of the last stamp */
    uint64_t *last;    /* the stamp that each page got last, 0 = none in this run */
};

static void prepare(struct run *run)
{
    const uint64_t *value = run->params.value;
    uint64_t npages = page_set_free();
    struct stamp *stamp;

    probe_require(run->workload->name);
    if (value[STAMP_SET] / BOOT_PAGE_BYTES < npages)
        npages = value[STAMP_SET] / BOOT_PAGE_BYTES + 1;
    npages += 2 * (BOOT_MAX_RANGES + 1);
    stamp = page_set_reserve(sizeof(*stamp) + npages * sizeof(uint64_t));
    stamp->last = (uint64_t *)(stamp + 1);
    stamp->sequence = probe_read(PROBE_WINDOW_PORT, PROBE_REG_STAMPED);
    run->state = stamp;
    page_set_choose(&run->set, value[STAMP_SET], value[STAMP_STRIDE], value[STAMP_OFFSET], true);
    worker_seed(&run->worker[0], value[STAMP_SEED]);
}

static void check_page(const struct run *run, struct worker *worker, uint64_t index)
{
    const struct stamp *stamp = run->state;
    const volatile uint64_t *words = (volatile uint64_t *)page_set_gpa(&run->set, index);
    uint64_t expected = stamp->last[index];

    if (!expected || (words[0] == expected && words[1] == ~expected))
        return;
    print("stamp: FAULT page %lx (number %lu): expected %lx and %lx, found %lx and %lx; last stamp "
          "was %lx\n",
          (uint64_t)words, index, expected, ~expected, words[0], words[1], stamp->sequence);
    worker_fault(worker, GUEST_EXIT_STAMP);
}

static void stamp_page(const struct run *run, uint64_t index)
{
    struct stamp *stamp = run->state;
    uint64_t choice = run->params.value[STAMP_WINDOW];
    enum probe_window window = PROBE_WINDOW_PORT;

    if (choice == CHOOSE_MMIO || (choice == CHOOSE_BOTH && (stamp->sequence & 1)))
        window = PROBE_WINDOW_MMIO;
    probe_write(window, PROBE_REG_STAMP,
                (uint32_t)(page_set_gpa(&run->set, index) / BOOT_PAGE_BYTES));
    stamp->last[index] = ++stamp->sequence;
}

static void work(struct run *run, struct worker *worker)
{
    const uint64_t *value = run->params.value;
    uint64_t n = run->set.npages;
    uint64_t done = 0;
    unsigned slice = 0;

    if (worker->cpu != 0) {
        worker_start_timer(worker, IDLE_HZ, CPU_TIMER_LAPIC);
        while (worker_next(worker, run, 0))
            cpu_call(CPU_CALL_WAIT, 0, 0);
        return;
    }
    /* This worker makes all the stamps, so the rate is its own, not shared. */
    worker_set_rate(worker, run, value[STAMP_RATE] * run->ncpus, RUN_WAIT_HALT);
    while ((slice = worker_next(worker, run, slice))) {
        for (unsigned i = 0; i < slice; i++, done++) {
            uint64_t index =
                value[STAMP_ORDER] == ORDER_SEQ ? done % n : worker_random_below(worker, n);

            check_page(run, worker, index); /* its previous stamp, of long ago */
            stamp_page(run, index);
            check_page(run, worker, index);
            check_page(run, worker, worker_random_below(worker, n));
        }
        worker->stats->rounds = done / n;
    }
}

static void verify(struct run *run, struct worker *worker)
{
    const struct stamp *stamp = run->state;

    if (worker->cpu != 0)
        return;
    for (uint64_t i = 0; i < run->set.npages; i++) {
        if (run->params.value[STAMP_SABOTAGE] && stamp->last[i])
            *(volatile uint64_t *)page_set_gpa(&run->set, i) = 0;
        check_page(run, worker, i);
        worker_beat(worker, 0);
    }
    if ((uint32_t)stamp->sequence != probe_read(PROBE_WINDOW_PORT, PROBE_REG_STAMPED)) {
        print("stamp: FAULT %lx stamps were asked for, the device made %x\n", stamp->sequence,
              probe_read(PROBE_WINDOW_PORT, PROBE_REG_STAMPED));
        worker_fault(worker, GUEST_EXIT_STAMP);
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("stamp: OK pages=%lu stamps=%lu rounds=%lu max_gap_us=%lu\n", run->set.npages, total.work,
          total.rounds, total.max_gap_ns / 1000);
}

const struct workload workload_stamp = {
    .name = GUEST_WORKLOAD_STAMP,
    .about = "pages that the probe device writes",
    .params = params,
    .prepare = prepare,
    .work = work,
    .verify = verify,
    .summary = summary,
};
