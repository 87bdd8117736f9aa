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
#include "tools/binding.h"
#include "tools/lobby.h"
#include "vmm/base/error.h"

struct incoming {
    struct binding_sink binding;
    struct lobby lobby;
    struct channel *first; /* stream 0 of the migration under way; borrowed */
    const char *unix_path;
    const char *snapshot_path; /* NULL: the guest comes over a connection */
    bool restore_paused;
    int listen_fd; /* -1: one stream that is there already, or nobody is wanted any more */
    int in_fd, out_fd;
    int cancel_fd; /* eventfd */
    int done_fd;   /* eventfd: the thread has ended */
    pthread_t thread;
    bool started, joined;
    struct progress progress;
    /* Valid after the end. */
    enum receive_outcome outcome;
    bool guest_lost; /* a migration had begun and failed */
    struct error err;
};

/* `made_for` says what the guest's machine is built with here. Takes over the descriptors: either
 * listen_fd, or in_fd and out_fd. unix_path (NULL: none) is the socket's file, removed when nobody
 * is wanted any more; borrowed. */
int incoming_start(struct incoming *incoming, struct vm_host *host,
                   const struct machine_host *made_for, int listen_fd, const char *unix_path,
                   int in_fd, int out_fd, struct error *err);

/* The guest comes from a snapshot file instead; `path` is borrowed. `paused`: it stays paused
 * whatever it did when it was saved. */
int incoming_restore(struct incoming *incoming, struct vm_host *host,
                     const struct machine_host *made_for, const char *path, bool paused,
                     struct error *err);

/* After done_fd became readable: joins the thread; outcome and err are valid. */
void incoming_collect(struct incoming *incoming);

/* Ends the wait (a guest that was taken over stays) and joins the thread. Harmless if never
 * started. */
void incoming_finish(struct incoming *incoming);

#endif
