/* SPDX-License-Identifier: MIT */
#include "tools/uri_resolve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vmm/base/clock.h"

/* Shared by who waits and the thread that looks up; the last one frees it. */
struct lookup {
    char host[256], port[8];
    bool passive;
    int done_fd; /* eventfd */
    int rc;      /* getaddrinfo()'s */
    struct addrinfo *list;
    unsigned users; /* atomic */
};

static void leave(struct lookup *lookup)
{
    if (__atomic_sub_fetch(&lookup->users, 1, __ATOMIC_ACQ_REL))
        return;
    if (lookup->list)
        freeaddrinfo(lookup->list);
    (void)close(lookup->done_fd);
    free(lookup);
}

static void *lookup_main(void *opaque)
{
    struct lookup *lookup = opaque;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = lookup->passive ? AI_PASSIVE : 0};
    uint64_t one = 1;

    lookup->rc = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->list);
    (void)!write(lookup->done_fd, &one, sizeof(one));
    leave(lookup);
    return NULL;
}

static int start(struct lookup *lookup)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int rc;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    lookup->users = 2;
    rc = pthread_create(&thread, &attributes, lookup_main, lookup);
    (void)pthread_attr_destroy(&attributes);
    if (rc)
        lookup->users = 1;
    return -rc;
}

static int await(const struct lookup *lookup, uint64_t until_ns, int cancel_fd)
{
    for (;;) {
        struct pollfd polls[2] = {{.fd = lookup->done_fd, .events = POLLIN},
                                  {.fd = cancel_fd, .events = POLLIN}};
        uint64_t now = clock_now_ns();
        uint64_t left_ms = now < until_ns ? (until_ns - now) / CLOCK_NS_PER_MS + 1 : 0;

        if (poll(polls, 2, left_ms > 60000 ? 60000 : (int)left_ms) < 0 && errno != EINTR)
            return -errno;
        if (polls[0].revents)
            return 0;
        if (polls[1].revents)
            return -ECANCELED;
        if (clock_now_ns() >= until_ns)
            return -ETIMEDOUT;
    }
}

int uri_resolve(const char *host, const char *port, bool passive, uint64_t until_ns, int cancel_fd,
                struct addrinfo **list, struct error *err)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    int rc;

    if (!lookup)
        return error_set(err, ENOMEM, "no memory to look up host '%s'", host);
    (void)snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    (void)snprintf(lookup->port, sizeof(lookup->port), "%s", port);
    lookup->passive = passive;
    lookup->users = 1;
    lookup->done_fd = eventfd(0, EFD_CLOEXEC);
    rc = lookup->done_fd < 0 ? -errno : start(lookup);
    if (!rc)
        rc = await(lookup, until_ns, cancel_fd);
    if (rc == -ECANCELED)
        (void)error_set(err, ECANCELED, "cancelled");
    else if (rc)
        (void)error_set(err, -rc, "host '%s' cannot be resolved: %s", host, strerror(-rc));
    else if (lookup->rc)
        rc = error_set(err, EHOSTUNREACH, "host '%s' cannot be resolved: %s", host,
                       gai_strerror(lookup->rc));
    if (!rc) {
        *list = lookup->list;
        lookup->list = NULL;
    }
    leave(lookup);
    return rc;
}
