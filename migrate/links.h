/* SPDX-License-Identifier: MIT
 *
 * Where the streams of one migration come from. */
#ifndef MIGRATE_LINKS_H
#define MIGRATE_LINKS_H

#include "migrate/channel.h"

struct migrate_links {
    /* Stream 0, connected; stays the caller's. */
    struct channel *first;
    /* One more connection with the same peer, which becomes the engine's: the source connects, the
     * destination accepts (whoever comes; stream 0 is watched meanwhile: -ECONNRESET once there is
     * something to read on it). NULL: there is only the first, such as a pair of pipes. */
    int (*next)(void *opaque, struct channel **out, struct error *err);
    void *opaque;
};

#endif
