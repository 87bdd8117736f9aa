/* SPDX-License-Identifier: MIT
 *
 * A migration in doubt: COMMIT was submitted and never confirmed. Listens for a RUNNING that comes
 * late, and asks the destination. Everything but the listening happens in the control thread. */
#ifndef TOOLS_DOUBT_H
#define TOOLS_DOUBT_H

#include <pthread.h>
#include <stdbool.h>

#include "migrate/precopy.h"
#include "tools/uri.h"

struct doubt {
    struct precopy_doubt of;     /* the engine fills it in */
    struct channel_options link; /* of the migration */
    struct channel *channel;     /* the migration's; NULL once it is of no more use */
    int stop_fd;                 /* eventfd: ends the listening */
    int heard_fd;                /* eventfd: RUNNING came, or never will over this channel */
    bool listening;
    bool heard; /* RUNNING; valid when the thread has ended */
    pthread_t thread;
};

int doubt_init(struct doubt *doubt, struct error *err);
void doubt_destroy(struct doubt *doubt);

/* Takes over the channel and listens. The engine's thread, before the control thread knows. */
void doubt_begin(struct doubt *doubt, struct channel *channel, const struct channel_options *link);

/* Ends the listening; true where RUNNING was heard meanwhile. */
bool doubt_stop_listening(struct doubt *doubt);
/* Listens on, where there is a channel still. */
void doubt_listen(struct doubt *doubt);

/* Asks the destination: connecting and answering take at most one deadline, or 10 s, each. */
int doubt_ask(const struct doubt *doubt, const struct uri *uri, enum wire_answer *answer,
              struct error *err);

/* Settled: the channel is closed. */
void doubt_end(struct doubt *doubt);

#endif
