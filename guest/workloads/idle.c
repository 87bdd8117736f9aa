/* SPDX-License-Identifier: MIT
 *
 * idle: halts from tick to tick. With fill, the pages are touched first, so that a migration has
 * something to carry. */
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/user/content.h"
#include "guest/workloads/workloads.h"

enum { IDLE_HZ, IDLE_TIMER, IDLE_FILL };

static const struct param params[] = {
    [IDLE_HZ] = {.key = "hz", .type = PARAM_NUMBER, .value = 100, .min = 1, .max = 5000},
    [IDLE_TIMER] = {.key = "timer", .type = PARAM_CHOICE, .choices = "lapic|pit"},
    [IDLE_FILL] = {.key = "fill", .type = PARAM_SIZE, .value = 0, .max = UINT64_MAX},
    {.key = NULL},
};

static void prepare(struct run *run)
{
    if (run->params.value[IDLE_FILL])
        page_set_choose(&run->set, run->params.value[IDLE_FILL], 1, 0, false);
}

static void fill(struct run *run, struct worker *worker)
{
    uint64_t first, end;

    worker_share(worker, run, run->set.npages, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        content_fill(page_set_gpa(&run->set, i), i);
        worker_beat(worker, 0);
    }
}

static void work(struct run *run, struct worker *worker)
{
    const uint64_t *ticks = &cpu_shared[worker->cpu].ticks;
    uint64_t seen = 0;
    uint64_t now = 0;

    /* The PIT is wired to CPU 0 alone. */
    worker_start_timer(worker, run->params.value[IDLE_HZ],
                       worker->cpu == 0 ? (unsigned)run->params.value[IDLE_TIMER]
                                        : CPU_TIMER_LAPIC);
    while (worker_next(worker, run, now - seen)) {
        seen = now;
        cpu_call(CPU_CALL_WAIT, 0, 0);
        now = __atomic_load_n(ticks, __ATOMIC_RELAXED);
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("idle: OK filled=%lu ticks=%lu max_gap_us=%lu tsc_steps=%lu\n", run->set.npages,
          total.work, total.max_gap_ns / 1000, total.tsc_steps);
}

const struct workload workload_idle = {
    .name = GUEST_WORKLOAD_IDLE,
    .about = "halts from tick to tick",
    .params = params,
    .prepare = prepare,
    .fill = fill,
    .work = work,
    .summary = summary,
};
