/* SPDX-License-Identifier: MIT */
#include "tools/bench_engine_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"
#include "vmm/memory.h"

/* It sleeps between its stores, as a guest halts until its next tick. */
#define TICK_NS CLOCK_NS_PER_MS

/* splitmix64: the place of each number says nothing of the next one's. */
uint64_t engine_writer_scatter(uint64_t number)
{
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void store(struct engine_writer *writer, uint64_t number)
{
    uint64_t page = (writer->random ? engine_writer_scatter(number) : number) % writer->npages;
    volatile uint64_t *word = (volatile uint64_t *)(writer->hva + page * MEMORY_PAGE_BYTES);

    *word += 1;
    /* Marked first, the page could be collected, sent and forgotten before the store. */
    bitmap_set_atomic(writer->log, page);
}

/* Under the lock: what is due by now. */
static void store_due(struct engine_writer *writer)
{
    uint64_t elapsed_ns = clock_now_ns() - writer->since_ns;
    uint64_t due = elapsed_ns / CLOCK_NS_PER_SEC * writer->rate +
                   elapsed_ns % CLOCK_NS_PER_SEC * writer->rate / CLOCK_NS_PER_SEC;

    for (; writer->done_since < due; writer->done_since++)
        store(writer, writer->done++);
}

static void *writer_main(void *opaque)
{
    struct engine_writer *writer = opaque;

    while (!atomic_load(&writer->stop)) {
        (void)pthread_mutex_lock(&writer->lock);
        if (!writer->paused)
            store_due(writer);
        (void)pthread_mutex_unlock(&writer->lock);
        (void)nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
    }
    return NULL;
}

int engine_writer_start(struct engine_writer *writer, struct error *err)
{
    int rc;

    atomic_init(&writer->stop, false);
    (void)pthread_mutex_init(&writer->lock, NULL);
    writer->since_ns = clock_now_ns();
    writer->log = calloc(bitmap_words(writer->npages), sizeof(uint64_t));
    if (!writer->log)
        return error_set(err, ENOMEM, "no memory for a bitmap");
    rc = pthread_create(&writer->thread, NULL, writer_main, writer);
    if (rc)
        return error_set(err, rc, "a thread that writes: %s", strerror(rc));
    writer->started = true;
    return 0;
}

static void set_paused(struct engine_writer *writer, bool paused)
{
    if (!writer->started)
        return;
    (void)pthread_mutex_lock(&writer->lock);
    writer->paused = paused;
    writer->since_ns = clock_now_ns();
    writer->done_since = 0;
    (void)pthread_mutex_unlock(&writer->lock);
}

void engine_writer_pause(struct engine_writer *writer)
{
    set_paused(writer, true);
}

void engine_writer_resume(struct engine_writer *writer)
{
    set_paused(writer, false);
}

void engine_writer_free(struct engine_writer *writer)
{
    if (writer->started) {
        atomic_store(&writer->stop, true);
        (void)pthread_join(writer->thread, NULL);
        writer->started = false;
    }
    free(writer->log);
    writer->log = NULL;
}

void engine_writer_collect(struct engine_writer *writer, uint64_t *pending)
{
    size_t nwords = bitmap_words(writer->npages);

    for (size_t w = 0; w < nwords; w++)
        pending[w] |= bitmap_take_word_atomic(&writer->log[w]);
}
