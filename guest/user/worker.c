/* SPDX-License-Identifier: MIT
 *
 * What every worker does on its way: watch the clock, publish, keep its pace, notice the finish. */
#include "guest/abi.h"
#include "guest/lib/clock.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"
#include "guest/user/content.h"
#include "guest/user/run.h"

#define SECOND_NS 1000000000ull
/* A worker that is behind by more starts afresh: no burst after a blackout. */
#define PACE_DEBT_NS 20000000ull
#define PACE_TICK_HZ 1000
/* CPU 0 looks at the UART this often, for hosts that do not deliver its interrupt. */
#define POLL_NS 100000000ull

static void publish(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

void worker_beat(struct worker *worker, uint64_t done)
{
    struct guest_cpu_stats *stats = worker->stats;
    uint64_t now = clock_now_ns(worker->cpu);
    uint64_t tsc = cpu_tsc();

    if (now < worker->now_ns) {
        publish(&stats->clock_steps, stats->clock_steps + 1);
        print("clock: FAULT cpu %u: %s went back from %lu to %lu ns\n", worker->cpu, clock_name(),
              worker->now_ns, now);
        worker_fault(worker, GUEST_EXIT_CLOCK);
    }
    if (tsc < worker->tsc)
        publish(&stats->tsc_steps, stats->tsc_steps + 1);
    if (now - worker->now_ns > stats->max_gap_ns)
        publish(&stats->max_gap_ns, now - worker->now_ns);
    worker->now_ns = now;
    worker->tsc = tsc;
    publish(&stats->clock_ns, now);
    publish(&stats->work, stats->work + done);
    publish(&stats->heartbeat, stats->heartbeat + 1);
}

/* Has someone typed the finish byte? Everything else is thrown away. */
static bool finish_typed(void)
{
    struct cpu_input *input = &cpu_input;
    uint32_t head = __atomic_load_n(&input->head, __ATOMIC_ACQUIRE);
    bool found = false;

    while (input->tail != head) {
        if (input->bytes[input->tail % CPU_INPUT_BYTES] == GUEST_FINISH_BYTE)
            found = true;
        __atomic_store_n(&input->tail, input->tail + 1, __ATOMIC_RELEASE);
    }
    return found;
}

static void look_for_finish(struct worker *worker, struct run *run)
{
    bool finish = run->end_ns && worker->now_ns >= run->end_ns;

    if (!run->workload->takes_input) {
        if (worker->now_ns >= worker->poll_ns) {
            worker->poll_ns = worker->now_ns + POLL_NS;
            cpu_call(CPU_CALL_POLL, 0, 0);
        }
        finish = finish_typed() || finish;
    }
    if (finish)
        __atomic_store_n(&run->stop, 1, __ATOMIC_RELEASE);
}

/* Units that are due, at most a slice. */
static unsigned take_due(struct worker *worker)
{
    uint64_t lag_ns = worker->now_ns - worker->pace_ns;
    uint64_t one_ns, due, step;

    if (!worker->rate)
        return 0;
    one_ns = SECOND_NS / worker->rate + 1;
    if (lag_ns > PACE_DEBT_NS + one_ns) {
        /* The unit that is due now stays due, else a slow pace would never come to one. */
        lag_ns = one_ns;
        worker->pace_ns = worker->now_ns - lag_ns;
    }
    due = lag_ns * worker->rate / SECOND_NS;
    if (due > RUN_SLICE)
        due = RUN_SLICE;
    step = due * SECOND_NS + worker->pace_part;
    worker->pace_ns += step / worker->rate;
    worker->pace_part = step % worker->rate;
    return (unsigned)due;
}

unsigned worker_next(struct worker *worker, struct run *run, uint64_t done)
{
    for (;;) {
        unsigned due;

        worker_beat(worker, done);
        done = 0;
        if (worker->cpu == 0)
            look_for_finish(worker, run);
        if (__atomic_load_n(&run->stop, __ATOMIC_ACQUIRE))
            return 0;
        if (!worker->paced)
            return RUN_SLICE;
        due = take_due(worker);
        if (due)
            return due;
        if (worker->wait == RUN_WAIT_HALT)
            cpu_call(CPU_CALL_WAIT, 0, 0);
        else
            cpu_pause();
    }
}

void worker_start_timer(struct worker *worker, uint64_t hz, unsigned timer)
{
    if (!cpu_call(CPU_CALL_TIMER, hz, timer))
        return;
    print("cpu %u: no %s timer with %lu ticks a second\n", worker->cpu,
          timer == CPU_TIMER_PIT ? "PIT" : "LAPIC", hz);
    machine_exit(GUEST_EXIT_NO_DEVICE);
}

void worker_set_rate(struct worker *worker, const struct run *run, uint64_t rate,
                     enum run_wait wait)
{
    worker->paced = rate != 0;
    worker->rate = rate / run->ncpus + (worker->cpu < rate % run->ncpus);
    worker->wait = wait;
    if (worker->paced && wait == RUN_WAIT_HALT)
        worker_start_timer(worker, PACE_TICK_HZ, CPU_TIMER_LAPIC);
    worker->now_ns = clock_now_ns(worker->cpu);
    worker->pace_ns = worker->now_ns;
}

uint64_t worker_random(struct worker *worker)
{
    uint64_t x = worker->random;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    worker->random = x;
    return x * 0x2545f4914f6cdd1dull;
}

uint64_t worker_random_below(struct worker *worker, uint64_t n)
{
    return (uint64_t)((unsigned __int128)worker_random(worker) * n >> 64);
}

void worker_seed(struct worker *worker, uint64_t seed)
{
    worker->random = content_mix(seed * GUEST_MAX_CPUS + worker->cpu) | 1;
}

void worker_share(const struct worker *worker, const struct run *run, uint64_t n, uint64_t *first,
                  uint64_t *end)
{
    *first = n * worker->cpu / run->ncpus;
    *end = n * (worker->cpu + 1) / run->ncpus;
}

void worker_fault(struct worker *worker, uint32_t code)
{
    publish(&worker->stats->faults, worker->stats->faults + 1);
    machine_exit(code);
}

struct guest_cpu_stats run_total(const struct run *run)
{
    struct guest_cpu_stats total = {0};

    for (unsigned cpu = 0; cpu < run->ncpus; cpu++) {
        const struct guest_cpu_stats *one = run->worker[cpu].stats;

        total.work += one->work;
        total.rounds += one->rounds;
        total.clock_steps += one->clock_steps;
        total.tsc_steps += one->tsc_steps;
        total.faults += one->faults;
        if (one->max_gap_ns > total.max_gap_ns)
            total.max_gap_ns = one->max_gap_ns;
    }
    return total;
}
