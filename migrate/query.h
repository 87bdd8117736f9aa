/* SPDX-License-Identifier: MIT
 *
 * The question of a source in doubt: what became of a session at the destination? A connection of
 * its own, one HELLO each way and one ANSWER. */
#ifndef MIGRATE_QUERY_H
#define MIGRATE_QUERY_H

#include "migrate/channel.h"
#include "migrate/wire.h"
#include "vmm/base/error.h"

/* Source: asks over a fresh channel, which stays the caller's. 0 with *answer, or -errno with a
 * line. May wait for as long as the destination's own deadline lasts: see docs/handover.md. */
int query_ask(struct channel *channel, const uint8_t *session, enum wire_answer *answer,
              struct error *err);

/* Destination, in the place of receive_run(): takes the source's HELLO and answers it. `session`
 * (NULL: none) ended with `answer`; any other is unknown. Who brings a guest is refused with
 * `reason`. *asked tells whether this session was asked about and the answer went out. */
int query_serve(struct channel *channel, const uint8_t *session, enum wire_answer answer,
                const char *reason, bool *asked, struct error *err);

#endif
