/* SPDX-License-Identifier: MIT
 *
 * Guest RAM that is a file goes from the file's own pages to the socket, through a pipe: nothing
 * is copied, no mapping is touched, and the kernel counts references instead of notifying. */
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

static int open_pipe(struct channel *channel, struct error *err)
{
    if (channel->has_pipe)
        return 0;
    if (pipe2(channel->pipe, O_CLOEXEC))
        return error_set(err, errno, "a pipe: %s", strerror(errno));
    channel->has_pipe = true;
    (void)fcntl(channel->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

void channel_file_close(struct channel *channel)
{
    if (!channel->has_pipe)
        return;
    (void)close(channel->pipe[0]);
    (void)close(channel->pipe[1]);
    channel->has_pipe = false;
}

/* What the socket takes of the pipe at once: bytes, or -errno; -EAGAIN: nothing now. splice(2) has
 * no flag for a socket that must not wait nor for a SIGPIPE that must not come. */
static int splice_now(struct channel *channel, size_t bytes, bool more)
{
    const struct timespec no_time = {.tv_sec = 0};
    int flags = fcntl(channel->out_fd, F_GETFL), rc;
    sigset_t pipe_signal, before;
    ssize_t moved;

    if (flags < 0 || fcntl(channel->out_fd, F_SETFL, flags | O_NONBLOCK))
        return -errno;
    (void)sigemptyset(&pipe_signal);
    (void)sigaddset(&pipe_signal, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    moved = splice(channel->pipe[0], NULL, channel->out_fd, NULL, bytes,
                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0));
    rc = moved < 0 ? -errno : (int)moved;
    if (rc == -EPIPE)
        (void)sigtimedwait(&pipe_signal, NULL, &no_time);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)fcntl(channel->out_fd, F_SETFL, flags);
    return rc;
}

/* All that is in the pipe. */
static int drain_pipe(struct channel *channel, size_t bytes, bool more, struct error *err)
{
    while (bytes) {
        int moved = splice_now(channel, bytes, more), rc = 0;

        if (moved == -EAGAIN)
            rc = channel_ring_wait_writable(channel, err);
        else if (moved <= 0 && moved != -EINTR)
            rc = channel_ring_failed(channel, CHANNEL_SEND_FILE, moved ? -moved : ECONNRESET, err);
        if (rc)
            return rc;
        if (moved > 0) {
            channel_ring_account(channel, CHANNEL_SEND_FILE, (uint64_t)moved);
            bytes -= (size_t)moved;
        }
    }
    return 0;
}

int channel_file_send(struct channel *channel, const struct channel_file *file, size_t bytes,
                      bool more, struct error *err)
{
    loff_t offset = (loff_t)file->offset;
    int rc = open_pipe(channel, err);

    while (!rc && bytes) {
        ssize_t filled = splice(file->fd, &offset, channel->pipe[1], NULL,
                                bytes < PIPE_BYTES ? bytes : PIPE_BYTES, SPLICE_F_MOVE);

        if (filled <= 0)
            return error_set(err, filled ? errno : EIO, "reading guest RAM from its file: %s",
                             filled ? strerror(errno) : "it is shorter than the RAM");
        bytes -= (size_t)filled;
        rc = drain_pipe(channel, (size_t)filled, more || bytes, err);
    }
    if (rc)
        channel_file_close(channel); /* what is left in the pipe belongs to nothing any more */
    return rc;
}
