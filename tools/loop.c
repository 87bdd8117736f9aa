/* SPDX-License-Identifier: MIT */
#include "tools/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 16

int loop_init(struct loop *loop, struct error *err)
{
    memset(loop, 0, sizeof(*loop));
    for (unsigned i = 0; i < LOOP_MAX_WATCHES; i++)
        loop->watch[i].fd = -1;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->epoll_fd < 0 ? error_set(err, errno, "epoll_create1: %s", strerror(errno)) : 0;
}

void loop_destroy(struct loop *loop)
{
    if (loop->epoll_fd >= 0)
        (void)close(loop->epoll_fd);
}

static struct loop_watch *find(struct loop *loop, int fd)
{
    for (unsigned i = 0; i < LOOP_MAX_WATCHES; i++) {
        if (loop->watch[i].fd == fd)
            return &loop->watch[i];
    }
    return NULL;
}

int loop_add(struct loop *loop, int fd, uint32_t events, loop_callback *callback, void *opaque)
{
    struct loop_watch *watch = find(loop, -1);
    struct epoll_event event = {.events = events, .data.fd = fd};

    if (!watch)
        return -ENOSPC;
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event))
        return -errno;
    *watch = (struct loop_watch){.fd = fd, .callback = callback, .opaque = opaque};
    return 0;
}

void loop_change(struct loop *loop, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    /* Fails only for a descriptor that was never added. */
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

void loop_remove(struct loop *loop, int fd)
{
    struct loop_watch *watch = fd < 0 ? NULL : find(loop, fd);

    if (!watch)
        return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    watch->fd = -1;
}

int loop_run(struct loop *loop, struct error *err)
{
    while (!loop->stop) {
        struct epoll_event events[BATCH];
        int count = epoll_wait(loop->epoll_fd, events, BATCH, -1);

        if (count < 0 && errno != EINTR)
            return error_set(err, errno, "epoll_wait: %s", strerror(errno));
        for (int i = 0; i < count && !loop->stop; i++) {
            /* Looked up anew: an earlier callback may have removed it. */
            const struct loop_watch *watch = find(loop, events[i].data.fd);

            if (watch)
                watch->callback(watch->opaque, events[i].events);
        }
    }
    return 0;
}
