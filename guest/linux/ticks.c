/* SPDX-License-Identifier: MIT
 *
 * Numbered lines with the wall time: whoever reads the console sees a lost or doubled byte, and how
 * the guest's clock stands to his own. */
#include <inttypes.h>
#include <pthread.h>

#include "guest/linux/workload.h"

static struct {
    pthread_t thread;
    uint64_t period_ns, count;
} ticks;

static void *tick(void *opaque)
{
    uint64_t due = now_ns(CLOCK_MONOTONIC);

    (void)opaque;
    while (!atomic_load(&finishing)) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);

        /* Lines that a pause kept from being printed are not made up for. */
        due = due + ticks.period_ns > now ? due + ticks.period_ns : now;
        sleep_until(due);
        say("tick %06" PRIu64 " %" PRIu64 " abcdefghijklmnopqrstuvwxyz", ticks.count++,
            now_ns(CLOCK_REALTIME));
    }
    return NULL;
}

void ticks_start(const struct options *options)
{
    if (!options->ticks)
        return;
    ticks.period_ns = NS_PER_S / options->ticks;
    pthread_create(&ticks.thread, NULL, tick, NULL);
}

uint64_t ticks_finish(void)
{
    if (ticks.period_ns)
        pthread_join(ticks.thread, NULL);
    return ticks.count;
}
