/* SPDX-License-Identifier: MIT
 *
 * Where connections wait until they have said HELLO: a port scanner that says nothing, or says it
 * slowly, never keeps a migration waiting. */
#ifndef TOOLS_LOBBY_H
#define TOOLS_LOBBY_H

#include <stdint.h>

#define LOBBY_PLACES 8

struct lobby {
    int listen_fd;
    struct lobby_place {
        int fd; /* -1: free */
        uint64_t since_ns;
    } place[LOBBY_PLACES];
};

/* The listening socket stays the caller's. */
void lobby_init(struct lobby *lobby, int listen_fd);

/* Waits for a connection whose HELLO has arrived and gives it to the caller; -ECANCELED once
 * cancel_fd is readable, or -errno where nothing can be accepted any more. */
int lobby_next(struct lobby *lobby, int cancel_fd);

/* Closes those that wait. */
void lobby_close(struct lobby *lobby);

#endif
