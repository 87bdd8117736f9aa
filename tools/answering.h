/* SPDX-License-Identifier: MIT
 *
 * A destination after its migration: answers a source in doubt for a while, and takes no other
 * guest. Runs in the thread that received. */
#ifndef TOOLS_ANSWERING_H
#define TOOLS_ANSWERING_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/channel.h"
#include "migrate/handover.h"
#include "migrate/wire.h"
#include "tools/lobby.h"

/* How long by default: time for a person to read that a migration is in doubt and to settle it. */
#define ANSWERING_DEFAULT_NS (300ull * 1000 * 1000 * 1000)
#define ANSWERING_MAX_NS     (86400ull * 1000 * 1000 * 1000)

/* The HELLO that waits unread in a socket. False: none, or one that is not a source's. */
bool answering_peek(int fd, struct wire_hello *hello);

/* A question while no migration has ended here: the session is unknown. Takes over fd. */
void answering_unknown(int fd, const struct channel_options *options);

/* Answers until for_ns have passed or options->cancel_fd is readable. `owner` is OWNER or
 * DISCARDED; a DISCARDED that was told ends after one more deadline. */
void answering_linger(struct lobby *lobby, const struct channel_options *options,
                      const uint8_t *session, enum handover_destination owner, uint64_t for_ns);

#endif
