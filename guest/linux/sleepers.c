/* SPDX-License-Identifier: MIT
 *
 * A storm of timers: threads that sleep for a moment again and again. Nobody may wake early, and
 * nobody may never wake. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "guest/abi.h"
#include "guest/linux/workload.h"

#define MAX_SLEEPERS 256u
#define MIN_SLEEP_NS (NS_PER_MS / 10)
#define MAX_SLEEP_NS (8 * NS_PER_MS)
/* At the end: longer than any sleep on a machine that is stopped for a while. */
#define PATIENCE_S 20

static struct {
    unsigned count;
    struct sleeper {
        pthread_t thread;
        unsigned number;
        uint64_t sleeps;
    } sleeper[MAX_SLEEPERS];
} storm;

static void *sleep_often(void *opaque)
{
    struct sleeper *sleeper = opaque;
    unsigned seed = sleeper->number;

    stay_on(sleeper->number);
    while (!atomic_load(&finishing)) {
        uint64_t until = now_ns(CLOCK_MONOTONIC) + MIN_SLEEP_NS +
                         (uint64_t)(unsigned)rand_r(&seed) % (MAX_SLEEP_NS - MIN_SLEEP_NS);
        struct timespec moment = {.tv_sec = (time_t)(until / NS_PER_S),
                                  .tv_nsec = (long)(until % NS_PER_S)};

        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == 0 &&
            now_ns(CLOCK_MONOTONIC) < until)
            fault(GUEST_EXIT_CLOCK, "sleeper %u woke early", sleeper->number);
        sleeper->sleeps++;
    }
    return NULL;
}

void sleepers_start(const struct options *options)
{
    storm.count = options->sleepers < MAX_SLEEPERS ? options->sleepers : MAX_SLEEPERS;
    for (unsigned i = 0; i < storm.count; i++) {
        storm.sleeper[i].number = i;
        pthread_create(&storm.sleeper[i].thread, NULL, sleep_often, &storm.sleeper[i]);
    }
}

uint64_t sleepers_finish(void)
{
    struct timespec until;
    uint64_t sleeps = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    for (unsigned i = 0; i < storm.count; i++) {
        if (pthread_timedjoin_np(storm.sleeper[i].thread, NULL, &until) == ETIMEDOUT)
            fault(GUEST_EXIT_CLOCK, "sleeper %u never woke", i);
        sleeps += storm.sleeper[i].sleeps;
    }
    return sleeps;
}
