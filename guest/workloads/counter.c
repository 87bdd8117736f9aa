/* SPDX-License-Identifier: MIT
 *
 * counter: nothing but accesses to the probe's counters, each of which must count once. A VMM that
 * forgets to complete an access before it saves a vCPU loses or doubles one. With one CPU both
 * windows take turns; with more, CPU 0 has the ports, CPU 1 the MMIO, and the others wait. */
#include "guest/abi.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"
#include "guest/workloads/probe.h"
#include "guest/workloads/workloads.h"

enum { COUNTER_WINDOW, COUNTER_STRING, COUNTER_RATE, COUNTER_SABOTAGE };

enum { CHOOSE_BOTH, CHOOSE_PORT, CHOOSE_MMIO };

/* Values moved by one string instruction, and how often one comes. */
#define STRING_VALUES 64
#define STRING_EVERY  64
#define IDLE_HZ       100

static const struct param params[] = {
    [COUNTER_WINDOW] = {.key = "window", .type = PARAM_CHOICE, .choices = "both|port|mmio"},
    [COUNTER_STRING] = {.key = "string", .type = PARAM_CHOICE, .choices = "yes|no"},
    [COUNTER_RATE] = {.key = "rate", .type = PARAM_NUMBER, .value = 0, .max = RUN_MAX_RATE},
    [COUNTER_SABOTAGE] = {.key = "sabotage", .type = PARAM_CHOICE, .choices = "none|read|write"},
    {.key = NULL},
};

/* One window as its only user sees it. */
struct counter {
    enum probe_window window;
    struct worker *worker;
    uint32_t expected;
};

static void prepare(struct run *run)
{
    probe_require(run->workload->name);
}

static void check(struct counter *counter, const char *what, uint32_t found)
{
    if (found == counter->expected)
        return;
    print("counter: FAULT cpu %u %s %s: expected %u, found %u (%d)\n", counter->worker->cpu,
          probe_window_name(counter->window), what, counter->expected, found,
          (int32_t)(found - counter->expected));
    worker_fault(counter->worker, GUEST_EXIT_COUNTER);
}

/* Three accesses, two of which count. */
static void single(struct counter *counter)
{
    check(counter, "read", probe_read(counter->window, PROBE_REG_COUNT));
    counter->expected++;
    probe_write(counter->window, PROBE_REG_COUNT, 0);
    counter->expected++;
    check(counter, "peek", probe_read(counter->window, PROBE_REG_PEEK));
}

/* String instructions: one exit may carry many values, and a migration may split them anywhere. */
static void string(struct counter *counter)
{
    uint32_t values[STRING_VALUES] = {0};

    io_in32_string((uint16_t)(boot_info.probe_port + PROBE_REG_COUNT), values, STRING_VALUES);
    for (unsigned i = 0; i < STRING_VALUES; i++) {
        check(counter, "string read", values[i]);
        counter->expected++;
    }
    io_out32_string((uint16_t)(boot_info.probe_port + PROBE_REG_COUNT), values, STRING_VALUES);
    counter->expected += STRING_VALUES;
    check(counter, "peek after string write", probe_read(counter->window, PROBE_REG_PEEK));
}

/* Which windows does this CPU use? */
static unsigned choose_windows(const struct run *run, unsigned cpu, enum probe_window *windows)
{
    uint64_t choice = run->params.value[COUNTER_WINDOW];
    unsigned n = 0;

    if (cpu == 0 && choice != CHOOSE_MMIO)
        windows[n++] = PROBE_WINDOW_PORT;
    if (choice != CHOOSE_PORT && (choice == CHOOSE_MMIO || run->ncpus == 1 ? cpu == 0 : cpu == 1))
        windows[n++] = PROBE_WINDOW_MMIO;
    return n;
}

static void wait(struct run *run, struct worker *worker)
{
    worker_start_timer(worker, IDLE_HZ, CPU_TIMER_LAPIC);
    while (worker_next(worker, run, 0))
        cpu_call(CPU_CALL_WAIT, 0, 0);
}

static void sabotage(const struct run *run, const struct counter *counter)
{
    if (run->params.value[COUNTER_SABOTAGE] == 1)
        (void)probe_read(counter->window, PROBE_REG_COUNT);
    if (run->params.value[COUNTER_SABOTAGE] == 2)
        probe_write(counter->window, PROBE_REG_COUNT, 0);
}

static void work(struct run *run, struct worker *worker)
{
    enum probe_window windows[2];
    struct counter counters[2];
    unsigned n = choose_windows(run, worker->cpu, windows);
    unsigned slice = 0;
    uint64_t done = 0;

    if (!n) {
        wait(run, worker);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        counters[i] = (struct counter){.window = windows[i], .worker = worker};
        counters[i].expected = probe_read(windows[i], PROBE_REG_PEEK);
    }
    worker_set_rate(worker, run, run->params.value[COUNTER_RATE], RUN_WAIT_HALT);
    while ((slice = worker_next(worker, run, slice))) {
        for (unsigned i = 0; i < slice; i++, done++) {
            struct counter *counter = &counters[done % n];

            single(counter);
            if (counter->window == PROBE_WINDOW_PORT && run->params.value[COUNTER_STRING] == 0 &&
                done / n % STRING_EVERY == 0)
                string(counter);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        sabotage(run, &counters[i]);
        check(&counters[i], "last peek", probe_read(windows[i], PROBE_REG_PEEK));
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("counter: OK steps=%lu port=%u mmio=%u max_gap_us=%lu\n", total.work,
          probe_read(PROBE_WINDOW_PORT, PROBE_REG_PEEK),
          probe_read(PROBE_WINDOW_MMIO, PROBE_REG_PEEK), total.max_gap_ns / 1000);
}

const struct workload workload_counter = {
    .name = GUEST_WORKLOAD_COUNTER,
    .about = "accesses to the probe's counters, each of which must count once",
    .params = params,
    .prepare = prepare,
    .work = work,
    .summary = summary,
};
