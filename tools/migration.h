/* SPDX-License-Identifier: MIT
 *
 * One outgoing migration: connects and runs the engine in a thread of its own. */
#ifndef TOOLS_MIGRATION_H
#define TOOLS_MIGRATION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/precopy.h"
#include "migrate/progress.h"
#include "tools/binding.h"
#include "tools/dirty_log_trust.h"
#include "tools/doubt.h"
#include "tools/uri.h"
#include "tools/vm_host.h"

enum migration_state {
    MIGRATION_NONE,
    MIGRATION_UNDER_WAY,
    MIGRATION_ENDED, /* outcome and err are valid */
};

struct migration {
    struct vm_host *host;
    struct channel_options link;    /* likewise: deadline and keep-alive; no cancel_fd */
    struct precopy_options options; /* of the next attempt; the control thread sets them */
    bool dirty_log_chosen;          /* likewise: by the user, else the best that works here */
    enum dirty_log_backend dirty_log;
    enum binding_zero_pages zero_pages; /* likewise */
    struct dirty_log_trust trust;       /* the attempt's thread */
    struct binding_source binding;
    enum migration_state state; /* the control thread's view: changes in start and collect */
    struct precopy_options running_options;
    struct channel_options running_link;
    struct doubt doubt;  /* after PRECOPY_IN_DOUBT, until it is settled */
    bool running_stop;   /* `stop` of this attempt */
    bool running_chosen; /* dirty_log_chosen of this attempt */
    char uri_text[URI_MAX_BYTES];
    struct uri uri;
    struct channel *first; /* the attempt's thread: its stream 0, borrowed */
    int given_fd;          /* fd: scheme: the stream, handed over at start; else -1 */
    int cancel_fd;         /* eventfd, written by cancel */
    bool interrupted;      /* atomic; set with it */
    int event_fd;          /* eventfd, written at each new phase and round */
    int done_fd;           /* eventfd, written by the thread's end */
    bool cancel_asked;
    pthread_t thread;
    struct progress progress;
    enum precopy_outcome outcome;
    struct error err;
};

int migration_init(struct migration *migration, struct vm_host *host, struct error *err);
/* Cancels and joins what is under way. */
void migration_destroy(struct migration *migration);

/* What is asked for; borrowed for the call. */
struct migration_request {
    const char *uri;
    int given_fd; /* the stream for fd: addresses (taken over, also on failure), else -1 */
    bool check_only;
    bool stop;               /* file: addresses: the guest stays paused afterwards */
    const char *record_path; /* where the dirty bitmaps are recorded, or NULL */
};

/* Starts an attempt. */
int migration_start(struct migration *migration, const struct migration_request *request,
                    struct error *err);

/* Asks the attempt to stop; too late after COMMIT. */
void migration_cancel(struct migration *migration);

/* The same for another reason than the user's: the guest has ended. */
void migration_interrupt(struct migration *migration);

/* After done_fd became readable: joins the thread, state becomes ENDED. */
void migration_collect(struct migration *migration);

/* In doubt: the user says who owns the guest. The destination is asked; `force` only where it
 * cannot be. -EPERM with a line where that is no answer, or another one. Waits as
 * doubt_ask(). The control thread. */
int migration_resolve(struct migration *migration, bool owner_is_source, bool force,
                      struct error *err);

/* RUNNING came late (doubt.heard_fd): true where it settled the doubt. */
bool migration_heard(struct migration *migration);
/* The attempt saves the guest to a file: it is not going anywhere. */
bool migration_is_snapshot(const struct migration *migration);

/* "completed", "failed", … as docs and --json name outcomes. */
const char *migration_outcome_name(enum precopy_outcome outcome);

#endif
