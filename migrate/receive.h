/* SPDX-License-Identifier: MIT
 *
 * The destination's engine: builds the machine, takes pages straight into its RAM, takes over. */
#ifndef MIGRATE_RECEIVE_H
#define MIGRATE_RECEIVE_H

#include "migrate/channel.h"
#include "migrate/endpoint.h"
#include "migrate/links.h"
#include "migrate/progress.h"
#include "vmm/base/error.h"

enum receive_outcome {
    RECEIVE_RUNNING, /* the guest is owned here: sink->run() was called */
    RECEIVE_CHECKED, /* the peer only asked whether the machine would be accepted; err has a line if
                        not */
    RECEIVE_STRANGER,  /* the peer never offered a machine: nothing was built */
    RECEIVE_DISCARDED, /* the migration failed before COMMIT: the sink was discarded */
    /* As DISCARDED, but READY was sent, and the source never said that it kept the guest: it may
     * have submitted COMMIT, and ask. */
    RECEIVE_ABANDONED,
};

/* Serves one migration in the calling thread, with a thread per further stream beside it. err gets
 * one line for STRANGER, DISCARDED and ABANDONED; the peer is told the reason where it still
 * listens. */
enum receive_outcome receive_run(const struct migrate_sink *sink, const struct migrate_links *links,
                                 struct progress *progress, struct error *err);

#endif
