/* SPDX-License-Identifier: MIT */
#include "migrate/progress.h"

#include <string.h>
#include <unistd.h>

#include "vmm/base/clock.h"

void progress_init(struct progress *progress)
{
    progress->notify_fd = -1;
    memset(&progress->view, 0, sizeof(progress->view));
    (void)pthread_mutex_init(&progress->lock, NULL);
}

void progress_destroy(struct progress *progress)
{
    (void)pthread_mutex_destroy(&progress->lock);
}

void progress_get(struct progress *progress, struct progress_view *view)
{
    (void)pthread_mutex_lock(&progress->lock);
    *view = progress->view;
    (void)pthread_mutex_unlock(&progress->lock);
}

struct progress_view *progress_begin(struct progress *progress)
{
    (void)pthread_mutex_lock(&progress->lock);
    return &progress->view;
}

void progress_end(struct progress *progress)
{
    (void)pthread_mutex_unlock(&progress->lock);
}

void progress_set_phase(struct progress *progress, enum progress_phase phase)
{
    uint64_t now = clock_now_ns();
    struct progress_view *view = progress_begin(progress);

    if (view->phase_since_ns)
        view->phase_ns[view->phase] += now - view->phase_since_ns;
    view->phase_since_ns = now;
    view->phase = phase;
    progress_end(progress);
    progress_notify(progress);
}

void progress_notify(struct progress *progress)
{
    uint64_t one = 1;

    /* An eventfd far from its limit: cannot fail. */
    if (progress->notify_fd >= 0)
        (void)!write(progress->notify_fd, &one, sizeof(one));
}

void progress_took(struct progress *progress, struct histogram *histogram, uint64_t begin_ns)
{
    uint64_t ns = clock_now_ns() - begin_ns;

    (void)progress_begin(progress);
    histogram_add(histogram, ns);
    progress_end(progress);
}

const char *progress_phase_name(enum progress_phase phase)
{
    switch (phase) {
    case PROGRESS_CONNECT:
        return "while connecting";
    case PROGRESS_HELLO:
        return "at hello";
    case PROGRESS_MACHINE:
        return "while the destination built the machine";
    case PROGRESS_JOIN:
        return "before the first round";
    case PROGRESS_ROUNDS:
        return "while copying memory";
    case PROGRESS_PAUSE:
        return "while pausing the guest";
    case PROGRESS_FINAL:
        return "in the last round";
    case PROGRESS_STATE:
        return "while sending the state";
    case PROGRESS_READY:
        return "after the state was sent, before COMMIT";
    case PROGRESS_COMMIT:
        return "after COMMIT";
    case PROGRESS_DONE:
        return "after completion";
    }
    return "in an unknown phase";
}
