/* SPDX-License-Identifier: MIT
 *
 * Clocks that every CPU reads in turn, under one lock: what one has seen, the next must not see go
 * back. */
#include <pthread.h>

#include "guest/abi.h"
#include "guest/linux/workload.h"

#define MAX_CPUS  64u
#define PERIOD_NS (10 * NS_PER_MS)
/* Reads in a row: a CPU whose clock lags is caught by being asked right after another. */
#define READS 50

static const struct {
    int clock;
    const char *name;
} clocks[] = {
    {CLOCK_MONOTONIC, "CLOCK_MONOTONIC"},
    {CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW"},
    {CLOCK_REALTIME, "CLOCK_REALTIME"},
    {CLOCK_BOOTTIME, "CLOCK_BOOTTIME"},
};

#define NCLOCKS (sizeof(clocks) / sizeof(clocks[0]))

static struct {
    pthread_mutex_t lock;
    uint64_t last[NCLOCKS];
    uint64_t reads;
    unsigned nthreads;
    pthread_t thread[MAX_CPUS];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void read_clocks(unsigned cpu)
{
    pthread_mutex_lock(&state.lock);
    for (unsigned i = 0; i < NCLOCKS; i++) {
        uint64_t now = now_ns(clocks[i].clock);

        if (now < state.last[i])
            fault(GUEST_EXIT_CLOCK, "%s went back by %llu ns on CPU %u", clocks[i].name,
                  (unsigned long long)(state.last[i] - now), cpu);
        state.last[i] = now;
    }
    state.reads++;
    pthread_mutex_unlock(&state.lock);
}

static void *watch(void *opaque)
{
    unsigned cpu = (unsigned)(uintptr_t)opaque;

    stay_on(cpu);
    while (!atomic_load(&finishing)) {
        for (unsigned i = 0; i < READS; i++)
            read_clocks(cpu);
        sleep_until(now_ns(CLOCK_MONOTONIC) + PERIOD_NS);
    }
    return NULL;
}

void clock_start(const struct options *options)
{
    state.nthreads = options->ncpus < MAX_CPUS ? options->ncpus : MAX_CPUS;
    for (unsigned i = 0; i < state.nthreads; i++)
        pthread_create(&state.thread[i], NULL, watch, (void *)(uintptr_t)i);
}

uint64_t clock_finish(void)
{
    for (unsigned i = 0; i < state.nthreads; i++)
        pthread_join(state.thread[i], NULL);
    return state.reads;
}
