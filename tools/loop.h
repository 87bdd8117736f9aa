/* SPDX-License-Identifier: MIT
 *
 * The control thread: one epoll loop with callbacks. Not thread-safe; other threads reach it
 * through eventfds. */
#ifndef TOOLS_LOOP_H
#define TOOLS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define LOOP_MAX_WATCHES 64

typedef void loop_callback(void *opaque, uint32_t events);

struct loop_watch {
    int fd; /* -1: free */
    loop_callback *callback;
    void *opaque;
};

struct loop {
    int epoll_fd;
    bool stop;
    struct loop_watch watch[LOOP_MAX_WATCHES];
};

int loop_init(struct loop *loop, struct error *err);
void loop_destroy(struct loop *loop);

/* Calls back while `events` (EPOLLIN, EPOLLOUT) hold. -EPERM for a regular file, which is always
 * ready; -ENOSPC where there are too many. The descriptor stays the caller's. */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_callback *callback, void *opaque);
void loop_change(struct loop *loop, int fd, uint32_t events);
void loop_remove(struct loop *loop, int fd);

/* Serves callbacks until loop_stop(). */
int loop_run(struct loop *loop, struct error *err);
static inline void loop_stop(struct loop *loop)
{
    loop->stop = true;
}

#endif
