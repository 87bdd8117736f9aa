/* SPDX-License-Identifier: MIT
 *
 * Guest RAM that is a file goes from the file's own pages to the socket, through a pipe: it is
 * copied nowhere on the way, no mapping is touched, and the kernel counts references instead of
 * notifying. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "migrate/channel_ring.h"

/* Pages that wait in the pipe at a time. What an unprivileged process may ask for; where even that
 * is refused, the pipe is as large as it is. */
#define PIPE_BYTES (1u << 20)
#define RETRY_NS   1000000

bool channel_file_ready(struct channel *channel)
{
    if (channel->has_pipe)
        return true;
    if (pipe2(channel->pipe, O_CLOEXEC))
        return false;
    channel->has_pipe = true;
    (void)fcntl(channel->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    return true;
}

void channel_file_close(struct channel *channel)
{
    if (!channel->has_pipe)
        return;
    (void)close(channel->pipe[0]);
    (void)close(channel->pipe[1]);
    channel->has_pipe = false;
}

/* splice(2) has no flag for a socket that must not wait, nor for a SIGPIPE that must not come, not
 * even after some bytes went: both are set for as long as a record's pages go. */
struct manners {
    int flags;
    bool was_pending;
    sigset_t mask;
};

static void pipe_signal(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGPIPE);
}

static int adopt(const struct channel *channel, struct manners *before, struct error *err)
{
    sigset_t signals, pending;

    before->flags = fcntl(channel->out_fd, F_GETFL);
    if (before->flags < 0 || fcntl(channel->out_fd, F_SETFL, before->flags | O_NONBLOCK))
        return error_set(err, errno, "O_NONBLOCK: %s", strerror(errno));
    pipe_signal(&signals);
    (void)sigpending(&pending);
    before->was_pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before->mask);
    return 0;
}

static void restore(const struct channel *channel, const struct manners *before)
{
    const struct timespec no_time = {.tv_sec = 0};
    sigset_t signals;

    pipe_signal(&signals);
    if (!before->was_pending)
        (void)sigtimedwait(&signals, NULL, &no_time);
    (void)pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
    (void)fcntl(channel->out_fd, F_SETFL, before->flags);
}

/* All that is in the pipe. */
static int drain_pipe(struct channel *channel, size_t bytes, bool more, struct error *err)
{
    unsigned refused = 0; /* in a row */
    uint64_t until_ns = channel_ring_until(channel);

    while (bytes) {
        ssize_t moved = splice(channel->pipe[0], NULL, channel->out_fd, NULL, bytes,
                               SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0));

        if (moved > 0) {
            channel_ring_account(channel, CHANNEL_SEND_FILE, (uint64_t)moved);
            bytes -= (size_t)moved;
            refused = 0;
            until_ns = channel_ring_until(channel);
        } else if (moved < 0 && errno == EAGAIN) {
            int rc = channel_ring_wait_writable(channel, until_ns, err);

            if (rc)
                return rc;
            /* Writable, and yet it takes nothing: the kernel has no memory for it now. */
            if (refused++)
                (void)nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
        } else if (moved == 0 || errno != EINTR) {
            return channel_ring_failed(channel, CHANNEL_SEND_FILE, moved ? errno : ECONNRESET, err);
        }
    }
    return 0;
}

/* As much as fits from file position `at` of a vector on: *got, 0 where the pipe is full. */
static int fill_pipe(struct channel *channel, const struct channel_file *file, size_t at,
                     size_t bytes, size_t *got, struct error *err)
{
    loff_t offset = (loff_t)(file->offset + at);
    ssize_t filled =
        splice(file->fd, &offset, channel->pipe[1], NULL, bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

    *got = filled > 0 ? (size_t)filled : 0;
    if (filled > 0 || (filled < 0 && errno == EAGAIN))
        return 0;
    return error_set(err, filled ? errno : EIO, "reading guest RAM from its file: %s",
                     filled ? strerror(errno) : "it is shorter than the RAM");
}

static int send_all(struct channel *channel, const struct iovec *vectors,
                    const struct channel_file *files, unsigned nvectors, struct error *err)
{
    size_t at = 0, held = 0;

    for (unsigned i = 0; i < nvectors || held;) {
        size_t got = 0;
        int rc = 0;

        if (i < nvectors)
            rc = fill_pipe(channel, &files[i], at, vectors[i].iov_len - at, &got, err);
        held += got;
        at += got;
        if (i < nvectors && at == vectors[i].iov_len) {
            at = 0;
            i++;
        }
        if (!rc && (!got || held >= PIPE_BYTES || i == nvectors)) {
            rc = held ? drain_pipe(channel, held, i < nvectors, err)
                      : error_set(err, EAGAIN, "an empty pipe takes nothing");
            held = 0;
        }
        if (rc)
            return rc;
    }
    return 0;
}

int channel_file_send(struct channel *channel, const struct iovec *vectors,
                      const struct channel_file *files, unsigned nvectors, struct error *err)
{
    struct manners before = {.flags = 0};
    int rc = adopt(channel, &before, err);

    if (rc)
        return rc;
    rc = send_all(channel, vectors, files, nvectors, err);
    restore(channel, &before);
    if (rc)
        channel_file_close(channel); /* what is left in the pipe belongs to nothing any more */
    return rc;
}
