/* SPDX-License-Identifier: MIT
 *
 * From the command line through a workload's phases to the exit code. */
#include "guest/user/run.h"

#include "guest/lib/boot_info.h"
#include "guest/lib/clock.h"
#include "guest/lib/command_line.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"
#include "guest/lib/string.h"
#include "guest/user/user.h"
#include "guest/workloads/workloads.h"

#define USER_STACK_BYTES 16384
#define NAME_BYTES       32

static const struct workload *const workloads[] = {
    &workload_hello,   &workload_idle,  &workload_dirty, &workload_memcheck,
    &workload_counter, &workload_stamp, &workload_echo,  &workload_fb,
};

static uint8_t user_stacks[GUEST_MAX_CPUS][USER_STACK_BYTES] __attribute__((aligned(16)));
/* The one run that a guest has. */
static struct run the_run;

uint64_t user_stack_top(unsigned cpu)
{
    return (uint64_t)user_stacks[cpu] + USER_STACK_BYTES;
}

static const struct workload *find_workload(const char *name)
{
    for (unsigned i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
        if (!strcmp(name, workloads[i]->name))
            return workloads[i];
    }
    print("no workload \"%s\"; there are\n", name);
    for (unsigned i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
        print("  %s: %s\n", workloads[i]->name, workloads[i]->about);
    machine_exit(GUEST_EXIT_BAD_COMMAND);
}

/* The first word names the workload; a line without one, or that begins with a parameter, means
 * hello. Returns the parameters. */
static const char *read_command(struct run *run)
{
    const char *text = boot_info.command_line;
    const char *rest = text;
    char name[NAME_BYTES];

    if (!command_line_word(&rest, name, sizeof(name))) {
        run->workload = &workload_hello;
        return rest;
    }
    for (const char *c = name; *c; c++) {
        if (*c == '=' || *c == '.') {
            run->workload = &workload_hello;
            return text;
        }
    }
    run->workload = find_workload(name);
    return rest;
}

/* Nobody leaves before all have come. */
static void run_barrier(struct run *run)
{
    uint32_t phase = __atomic_load_n(&run->phase, __ATOMIC_ACQUIRE);

    if (__atomic_add_fetch(&run->arrived, 1, __ATOMIC_ACQ_REL) == boot_info.ncpus) {
        __atomic_store_n(&run->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&run->phase, phase + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&run->phase, __ATOMIC_ACQUIRE) == phase)
        cpu_pause();
}

static void prepare(struct run *run)
{
    const char *text = read_command(run);

    run->ncpus = boot_info.ncpus;
    params_parse(&run->params, run->workload->params, run->workload->name, text);
    for (unsigned cpu = 0; cpu < run->ncpus; cpu++) {
        run->worker[cpu].cpu = cpu;
        run->worker[cpu].stats = &guest_stats.cpu[cpu];
        run->worker[cpu].random = cpu + 1;
    }
    if (run->workload->prepare)
        run->workload->prepare(run);
    guest_stats.version = 1;
    guest_stats.ncpus = run->ncpus;
    guest_stats.workload_pages = run->set.npages;
    memcpy(guest_stats.workload, run->workload->name, strlen(run->workload->name) + 1);
}

/* Between fill and work: what came before is no blackout. */
static void begin_work(struct run *run, struct worker *worker)
{
    worker->now_ns = clock_now_ns(worker->cpu);
    worker->pace_ns = worker->now_ns;
    worker->stats->max_gap_ns = 0;
    if (worker->cpu != 0)
        return;
    if (run->params.seconds)
        run->end_ns = worker->now_ns + run->params.seconds * 1000000000;
    __atomic_store_n(&guest_stats.magic, GUEST_STATS_MAGIC, __ATOMIC_RELEASE);
    print("ready\n");
}

void user_main(unsigned cpu)
{
    struct run *run = &the_run;
    struct worker *worker = &run->worker[cpu];
    const struct workload *workload;

    if (cpu == 0)
        prepare(run);
    run_barrier(run);
    workload = run->workload;
    worker->now_ns = clock_now_ns(cpu);
    worker->tsc = cpu_tsc();
    if (workload->fill)
        workload->fill(run, worker);
    run_barrier(run);
    if (workload->work) {
        begin_work(run, worker);
        workload->work(run, worker);
        run_barrier(run);
        worker->now_ns = clock_now_ns(cpu);
    }
    if (workload->verify)
        workload->verify(run, worker);
    run_barrier(run);
    if (cpu == 0) {
        workload->summary(run);
        machine_exit(GUEST_EXIT_OK);
    }
    for (;;)
        cpu_pause();
}
