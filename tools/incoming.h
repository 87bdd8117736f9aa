/* SPDX-License-Identifier: MIT
 *
 * Waiting for a guest: accepts connections one after another and runs the destination's engine in a
 * thread, until one of them brought a guest or failed after it began. */
#ifndef TOOLS_INCOMING_H
#define TOOLS_INCOMING_H

#include <pthread.h>
#include <stdbool.h>

#include "migrate/progress.h"
#include "migrate/receive.h"
#include "migrate/wire.h"
#include "tools/binding.h"
#include "tools/lobby.h"
#include "vmm/base/error.h"

/* What the user may set. */
struct incoming_times {
    uint64_t deadline_ns;  /* of every wait */
    uint64_t keepalive_ns; /* struct channel_options */
    uint64_t answer_ns;    /* how long a source in doubt is answered afterwards */
};

struct incoming {
    struct incoming_times times;
    struct binding_sink binding;
    struct lobby lobby;
    struct channel *first; /* stream 0 of the migration under way; borrowed */
    const char *unix_path;
    const char *snapshot_path; /* NULL: the guest comes over a connection */
    bool restore_paused;
    int listen_fd; /* -1: one stream that is there already, or nobody is wanted any more */
    int in_fd, out_fd;
    int cancel_fd; /* eventfd */
    int done_fd;   /* eventfd: outcome is known; again: the thread has ended, too */
    bool ended;    /* atomic */
    uint8_t session[WIRE_SESSION_BYTES]; /* of the migration that began */
    pthread_t thread;
    bool started, joined;
    bool listens; /* it could ever be asked */
    struct progress progress;
    /* Valid once done_fd was readable. */
    enum receive_outcome outcome;
    bool guest_lost; /* a migration had begun and failed */
    struct error err;
};

/* A guest that was taken over is answered for, in the thread, after done_fd became readable the
 * first time; so is one that was discarded where its source may be in doubt.
 *
 * `made_for` says what the guest's machine is built with here. Takes over the descriptors: either
 * listen_fd, or in_fd and out_fd. unix_path (NULL: none) is the socket's file, removed when nobody
 * is wanted any more; borrowed. */
int incoming_start(struct incoming *incoming, struct vm_host *host,
                   const struct machine_host *made_for, const struct incoming_times *times,
                   int listen_fd, const char *unix_path, int in_fd, int out_fd, struct error *err);

/* The guest comes from a snapshot file instead; `path` is borrowed. `paused`: it stays paused
 * whatever it did when it was saved. */
int incoming_restore(struct incoming *incoming, struct vm_host *host,
                     const struct machine_host *made_for, const char *path, bool paused,
                     struct error *err);

/* After `ended`: joins the thread. */
void incoming_collect(struct incoming *incoming);

/* Once the outcome is known: does the thread go on to answer? */
bool incoming_answers(const struct incoming *incoming);

/* Ends the wait (a guest that was taken over stays) and joins the thread. Harmless if never
 * started. */
void incoming_finish(struct incoming *incoming);

#endif
