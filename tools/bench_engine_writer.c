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

static void store(struct engine_writer *writer, uint64_t number)
{
    uint64_t page = number % writer->npages;
    volatile uint64_t *word = (volatile uint64_t *)(writer->hva + page * MEMORY_PAGE_BYTES);

    *word += 1;
    /* Marked first, the page could be collected, sent and forgotten before the store. */
    bitmap_set_atomic(writer->log, page);
}

static void *writer_main(void *opaque)
{
    struct engine_writer *writer = opaque;
    uint64_t begin = clock_now_ns(), done = 0;

    while (!atomic_load(&writer->stop)) {
        uint64_t elapsed_ns = clock_now_ns() - begin;
        uint64_t due = elapsed_ns / CLOCK_NS_PER_SEC * writer->rate +
                       elapsed_ns % CLOCK_NS_PER_SEC * writer->rate / CLOCK_NS_PER_SEC;

        while (done < due && !atomic_load(&writer->stop))
            store(writer, done++);
        (void)nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
    }
    return NULL;
}

int engine_writer_start(struct engine_writer *writer, struct error *err)
{
    int rc;

    atomic_init(&writer->stop, false);
    writer->log = calloc(bitmap_words(writer->npages), sizeof(uint64_t));
    if (!writer->log)
        return error_set(err, ENOMEM, "no memory for a bitmap");
    rc = pthread_create(&writer->thread, NULL, writer_main, writer);
    if (rc)
        return error_set(err, rc, "a thread that writes: %s", strerror(rc));
    writer->runs = true;
    return 0;
}

void engine_writer_stop(struct engine_writer *writer)
{
    if (!writer->runs)
        return;
    atomic_store(&writer->stop, true);
    (void)pthread_join(writer->thread, NULL);
    writer->runs = false;
}

void engine_writer_free(struct engine_writer *writer)
{
    engine_writer_stop(writer);
    free(writer->log);
    writer->log = NULL;
}

void engine_writer_collect(struct engine_writer *writer, uint64_t *pending)
{
    size_t nwords = bitmap_words(writer->npages);

    for (size_t w = 0; w < nwords; w++)
        pending[w] |= bitmap_take_word_atomic(&writer->log[w]);
}
