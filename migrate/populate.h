/* SPDX-License-Identifier: MIT
 *
 * Makes the destination's RAM present before the pages that are on their way: a huge page's worth
 * at once costs far less than its first touches one by one. Where there are CPUs to spare a thread
 * runs ahead of the stream; else each stream does it for the pages it is about to receive, because
 * a further busy thread would only take time from what runs beside it. A hint only: nothing depends
 * on how far it got. Internal to the destination's engine. */
#ifndef MIGRATE_POPULATE_H
#define MIGRATE_POPULATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/endpoint.h"
#include "migrate/record.h"

/* One bit stands for this many pages. */
#define POPULATE_GRANULE_PAGES 512u

struct populate {
    const struct migrate_sink *sink;
    struct migrate_layout layout;
    uint64_t *granules[MIGRATE_MAX_REGIONS]; /* announced and nobody's yet; atomic once begun */
    pthread_t thread;
    bool begun;   /* atomic: all is announced */
    bool started; /* the thread */
    bool stop;    /* atomic */
};

int populate_init(struct populate *populate, const struct migrate_sink *sink,
                  const struct migrate_layout *layout, struct error *err);

/* Takes the runs of one EXTENTS record; all come before populate_begin(). */
int populate_add(struct populate *populate, const struct record *record, struct error *err);

/* All is announced; once. `busy` threads receive: with a CPU beside theirs a thread runs ahead. */
void populate_begin(struct populate *populate, unsigned busy);
bool populate_has_begun(const struct populate *populate);

/* Any thread, before it writes the pages: populates the announced extents that they lie in and that
 * nobody has taken yet. */
void populate_pages(struct populate *populate, unsigned region, uint64_t first_page,
                    uint64_t npages);

/* Stops and joins the thread and frees everything; also after a failed init. No stream may still
 * take pages. */
void populate_stop(struct populate *populate);

#endif
