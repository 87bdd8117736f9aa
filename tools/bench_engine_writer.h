/* SPDX-License-Identifier: MIT
 *
 * What a vCPU does to the engine: a thread stores to pages at a pace, and what it stored to is in a
 * log. */
#ifndef TOOLS_BENCH_ENGINE_WRITER_H
#define TOOLS_BENCH_ENGINE_WRITER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"

struct engine_writer {
    uint8_t *hva;    /* the pages */
    uint64_t npages; /* at least 1 */
    uint64_t rate;   /* pages a second, at most ENGINE_WRITER_MAX_RATE */
    bool random;     /* which of them is next; else in turn */
    uint64_t *log;   /* a bit for each page, set after the store; owned */
    pthread_t thread;
    atomic_bool stop;
    bool started;
    pthread_mutex_t lock; /* held while it stores; of the rest */
    bool paused;
    uint64_t since_ns, done_since; /* the pace begins anew after a pause */
    uint64_t done;
};

#define ENGINE_WRITER_MAX_RATE 10000000ull

/* The caller has set hva, npages, rate and random. 0 or -errno with a line. */
int engine_writer_start(struct engine_writer *writer, struct error *err);
/* No store comes between a pause and what resumes it, and all that came before are in the log. */
void engine_writer_pause(struct engine_writer *writer);
void engine_writer_resume(struct engine_writer *writer);
/* Ends it. Fine where it was never started. */
void engine_writer_free(struct engine_writer *writer);

/* Where store `number` goes at random, modulo the pages: the same in every run. Pure. */
uint64_t engine_writer_scatter(uint64_t number);

/* Moves what is in the log into `pending`, of npages bits. Any thread, while it runs. */
void engine_writer_collect(struct engine_writer *writer, uint64_t *pending);

#endif
