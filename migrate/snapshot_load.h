/* SPDX-License-Identifier: MIT
 *
 * Restores a guest from a snapshot file: builds its machine, reads its pages straight into its RAM
 * in several threads, loads its state, lets it run. */
#ifndef MIGRATE_SNAPSHOT_LOAD_H
#define MIGRATE_SNAPSHOT_LOAD_H

#include <stdbool.h>

#include "migrate/endpoint.h"
#include "migrate/progress.h"
#include "migrate/receive.h"
#include "vmm/base/error.h"

struct snapshot_load_options {
    bool paused;   /* the guest stays paused even if it ran when it was saved */
    int cancel_fd; /* readable: give up; -1: none */
};

/* RECEIVE_RUNNING: the guest is owned here. RECEIVE_DISCARDED: it is not, nothing is left of it,
 * and err has one line, with the offset where the file is at fault. Never another outcome. The
 * sink's populate() is called from several threads at once. */
enum receive_outcome snapshot_load_run(const struct migrate_sink *sink, const char *path,
                                       const struct snapshot_load_options *options,
                                       struct progress *progress, struct error *err);

#endif
