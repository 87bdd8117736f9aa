/* SPDX-License-Identifier: MIT
 *
 * Where connections wait until they have said HELLO: a port scanner that says nothing, or says it
 * slowly, never keeps a migration waiting. */
#ifndef TOOLS_LOBBY_H
#define TOOLS_LOBBY_H

#include <stdint.h>

/* All streams of a migration, and a few strangers. */
#define LOBBY_PLACES 24

struct lobby {
    uint64_t deadline_ns; /* for saying HELLO */
    int listen_fd;
    struct lobby_place {
        int fd; /* -1: free */
        uint64_t since_ns;
    } place[LOBBY_PLACES];
};

/* The listening socket stays the caller's. */
void lobby_init(struct lobby *lobby, uint64_t deadline_ns, int listen_fd);

/* What ends a wait. */
struct lobby_limits {
    int cancel_fd;     /* readable: -ECANCELED */
    int watch_fd;      /* readable or closed: -ECONNRESET; -1: none */
    uint64_t until_ns; /* -ETIMEDOUT; 0: never */
};

/* Waits for a connection whose HELLO has arrived and gives it to the caller; or -errno as above, or
 * where nothing can be accepted any more. */
int lobby_next(struct lobby *lobby, const struct lobby_limits *limits);

/* Closes those that wait. */
void lobby_close(struct lobby *lobby);

#endif
