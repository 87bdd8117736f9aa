/* SPDX-License-Identifier: MIT
 *
 * Makes the destination's RAM present ahead of the pages that are on their way, in a thread of its
 * own: first touches would otherwise stall the receiver. A hint only: nothing depends on how far it
 * got. Internal to the destination's engine. */
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
    uint64_t *granules[MIGRATE_MAX_REGIONS];
    pthread_t thread;
    bool started;
    bool stop; /* atomic */
};

int populate_init(struct populate *populate, const struct migrate_sink *sink,
                  const struct migrate_layout *layout, struct error *err);

/* Takes the runs of one EXTENTS record; all come before the thread starts. */
int populate_add(struct populate *populate, const struct record *record, struct error *err);

/* Starts the thread once; where it cannot be had, pages are touched as they arrive. */
void populate_start(struct populate *populate);

/* Stops and joins the thread and frees everything; also after a failed init. */
void populate_stop(struct populate *populate);

#endif
