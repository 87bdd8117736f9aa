/* SPDX-License-Identifier: MIT
 *
 * At most one operation is in flight, plus a poll of the cancel descriptor. An operation that must
 * be given up is cancelled and its completion awaited before the call returns: until then the
 * kernel may still touch guest RAM. */
#include "migrate/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vmm/base/clock.h"

#define CHANNEL_RING_ENTRIES 8
#define CHANNEL_MAX_VECTORS  1024
/* Offset -1: read and write where the descriptor stands, as read(2) does. */
#define CURRENT_POSITION     UINT64_MAX
#define KEEPALIVE_IDLE_S     5
#define KEEPALIVE_INTERVAL_S 2
#define KEEPALIVE_PROBES     3

/* user_data of the requests. */
enum token { TOKEN_TRANSFER = 1, TOKEN_CANCEL_POLL, TOKEN_GIVE_UP };

struct channel {
    struct io_uring ring;
    int in_fd, out_fd;
    bool is_socket;
    uint64_t deadline_ns;
    uint64_t limit_ns; /* 0: none */
    bool cancelled;
    bool forget_cancel;
    uint64_t sent, received;
};

static bool fd_is_socket(int fd)
{
    int type;
    socklen_t length = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
}

/* O_NONBLOCK would make io_uring return EAGAIN instead of waiting. */
static void set_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && (flags & O_NONBLOCK))
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* A peer that vanished without a word is noticed by the kernel too. None of this applies to UNIX
 * sockets, where a dead peer is seen at once: errors are of no interest. */
static void tune_socket(int fd, uint64_t deadline_ns)
{
    int one = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S;
    int probes = KEEPALIVE_PROBES;
    unsigned timeout_ms = (unsigned)(deadline_ns / CLOCK_NS_PER_MS);

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

/* The ring has more entries than this file ever has in flight, so an SQE is always there after a
 * submit. */
static struct io_uring_sqe *get_sqe(struct channel *channel)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&channel->ring);

    if (!sqe && io_uring_submit(&channel->ring) >= 0)
        sqe = io_uring_get_sqe(&channel->ring);
    return sqe;
}

int channel_open(struct channel **out, int in_fd, int out_fd, const struct channel_options *options,
                 struct error *err)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    int rc = -ENOMEM;

    if (!channel) {
        (void)error_set(err, ENOMEM, "no memory for a channel");
        goto fail;
    }
    /* Task work only at our own system calls: no interrupts of a running copy. */
    rc = io_uring_queue_init(CHANNEL_RING_ENTRIES, &channel->ring, IORING_SETUP_COOP_TASKRUN);
    if (rc == -EINVAL)
        rc = io_uring_queue_init(CHANNEL_RING_ENTRIES, &channel->ring, 0);
    if (rc) {
        (void)error_set(err, -rc, "io_uring_setup: %s%s", strerror(-rc),
                        rc == -EPERM || rc == -ENOSYS
                            ? "; pageferry needs io_uring (sysctl kernel.io_uring_disabled=0)"
                            : "");
        goto fail;
    }
    set_blocking(in_fd);
    set_blocking(out_fd);
    channel->in_fd = in_fd;
    channel->out_fd = out_fd;
    channel->is_socket = fd_is_socket(in_fd) && fd_is_socket(out_fd);
    channel->deadline_ns = options->deadline_ns;
    if (channel->is_socket)
        tune_socket(out_fd, options->deadline_ns);
    if (options->cancel_fd >= 0) {
        struct io_uring_sqe *sqe = get_sqe(channel); /* the first of an empty ring */

        if (sqe) {
            io_uring_prep_poll_add(sqe, options->cancel_fd, POLLIN);
            io_uring_sqe_set_data64(sqe, TOKEN_CANCEL_POLL);
        }
    }
    *out = channel;
    return 0;
fail:
    free(channel);
    (void)close(in_fd);
    if (out_fd != in_fd)
        (void)close(out_fd);
    return rc;
}

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    io_uring_queue_exit(&channel->ring);
    (void)close(channel->in_fd);
    if (channel->out_fd != channel->in_fd)
        (void)close(channel->out_fd);
    free(channel);
}

/* Waits for completions until `until_ns`; *done is set, with the result, when the transfer's own
 * came. Returns -ETIME when the time is over. */
static int wait_completion(struct channel *channel, uint64_t until_ns, bool *done, int *result)
{
    uint64_t now = clock_now_ns();
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct __kernel_timespec timeout = {.tv_sec = (long long)(left / CLOCK_NS_PER_SEC),
                                        .tv_nsec = (long long)(left % CLOCK_NS_PER_SEC)};
    struct io_uring_cqe *cqe = NULL;
    int rc = io_uring_submit_and_wait_timeout(&channel->ring, &cqe, 1, &timeout, NULL);

    if (rc < 0 && rc != -ETIME && rc != -EINTR)
        return rc;
    while (io_uring_peek_cqe(&channel->ring, &cqe) == 0) {
        switch (io_uring_cqe_get_data64(cqe)) {
        case TOKEN_TRANSFER:
            *done = true;
            *result = cqe->res;
            break;
        case TOKEN_CANCEL_POLL:
            channel->cancelled = true;
            break;
        default:
            break;
        }
        io_uring_cqe_seen(&channel->ring, cqe);
    }
    return !*done && rc == -ETIME ? -ETIME : 0;
}

/* Takes the transfer back from the kernel; on return nothing is in flight. */
static void give_up(struct channel *channel, bool *done, int *result)
{
    struct io_uring_sqe *sqe = get_sqe(channel);

    if (!sqe)
        return; /* cannot be: the ring has more entries than this file uses */
    io_uring_prep_cancel64(sqe, TOKEN_TRANSFER, 0);
    io_uring_sqe_set_data64(sqe, TOKEN_GIVE_UP);
    while (!*done) {
        int rc = wait_completion(channel, clock_now_ns() + CLOCK_NS_PER_SEC, done, result);

        if (rc && rc != -ETIME)
            return; /* the ring itself is gone, and with it the request */
    }
}

/* Runs the prepared transfer to its completion. Returns bytes moved (>= 0) or -errno. */
static int run_transfer(struct channel *channel, struct io_uring_sqe *sqe, uint64_t until_ns)
{
    bool done = false;
    int result = 0;
    int rc = 0;

    io_uring_sqe_set_data64(sqe, TOKEN_TRANSFER);
    while (!done) {
        rc = wait_completion(channel, until_ns, &done, &result);
        if (!rc && !done && channel->cancelled && !channel->forget_cancel)
            rc = -ECANCELED;
        if (rc) {
            give_up(channel, &done, &result);
            break;
        }
    }
    if (rc == -ETIME)
        rc = -ETIMEDOUT;
    /* Bytes that did move are told, even where the wait was given up: the next call reports the
     * failure. */
    if (done && result > 0)
        return result;
    return rc ? rc : result;
}

static void consume(struct iovec **vectors, unsigned *nvectors, size_t bytes)
{
    while (*nvectors && bytes >= (*vectors)->iov_len) {
        bytes -= (*vectors)->iov_len;
        (*vectors)++;
        (*nvectors)--;
    }
    if (bytes) {
        (*vectors)->iov_base = (uint8_t *)(*vectors)->iov_base + bytes;
        (*vectors)->iov_len -= bytes;
    }
}

static void prepare_transfer(struct channel *channel, struct io_uring_sqe *sqe, bool send,
                             struct msghdr *message)
{
    unsigned count = (unsigned)message->msg_iovlen;

    if (channel->is_socket && send)
        io_uring_prep_sendmsg(sqe, channel->out_fd, message, MSG_NOSIGNAL);
    else if (channel->is_socket)
        io_uring_prep_recvmsg(sqe, channel->in_fd, message, 0);
    else if (send)
        io_uring_prep_writev(sqe, channel->out_fd, message->msg_iov, count, CURRENT_POSITION);
    else
        io_uring_prep_readv(sqe, channel->in_fd, message->msg_iov, count, CURRENT_POSITION);
}

static int transfer_failed(const struct channel *channel, bool send, int code, struct error *err)
{
    uint64_t offset = send ? channel->sent : channel->received;
    const char *verb = send ? "sending" : "receiving";

    switch (code) {
    case ECANCELED:
        return error_set(err, ECANCELED, "cancelled");
    case ETIMEDOUT:
        return error_set(err, ETIMEDOUT,
                         "the peer has been silent for %.1f s while %s at byte %" PRIu64,
                         (double)channel->deadline_ns / (double)CLOCK_NS_PER_SEC, verb, offset);
    case EPIPE:
    case ECONNRESET:
        return error_set(err, ECONNRESET,
                         "the peer closed the connection while %s at byte %" PRIu64, verb, offset);
    default:
        return error_set(err, code, "%s at byte %" PRIu64 ": %s", verb, offset, strerror(code));
    }
}

static uint64_t wait_until(const struct channel *channel)
{
    uint64_t until_ns = clock_now_ns() + channel->deadline_ns;

    return channel->limit_ns && channel->limit_ns < until_ns ? channel->limit_ns : until_ns;
}

static int transfer(struct channel *channel, bool send, struct iovec *vectors, unsigned nvectors,
                    struct error *err)
{
    consume(&vectors, &nvectors, 0); /* drops empty vectors in front */
    while (nvectors) {
        struct msghdr message = {
            .msg_iov = vectors,
            .msg_iovlen = nvectors < CHANNEL_MAX_VECTORS ? nvectors : CHANNEL_MAX_VECTORS};
        struct io_uring_sqe *sqe;
        int moved;

        if (channel->cancelled && !channel->forget_cancel)
            return transfer_failed(channel, send, ECANCELED, err);
        sqe = get_sqe(channel);
        if (!sqe)
            return error_set(err, EBUSY, "io_uring has no free submission entry");
        prepare_transfer(channel, sqe, send, &message);
        moved = run_transfer(channel, sqe, wait_until(channel));
        if (moved == -EINTR || moved == -EAGAIN)
            continue;
        if (moved == 0)
            moved = -ECONNRESET;
        if (moved < 0)
            return transfer_failed(channel, send, -moved, err);
        if (send)
            channel->sent += (uint64_t)moved;
        else
            channel->received += (uint64_t)moved;
        consume(&vectors, &nvectors, (size_t)moved);
    }
    return 0;
}

int channel_send(struct channel *channel, struct iovec *vectors, unsigned nvectors,
                 struct error *err)
{
    return transfer(channel, true, vectors, nvectors, err);
}

int channel_receive(struct channel *channel, struct iovec *vectors, unsigned nvectors,
                    struct error *err)
{
    return transfer(channel, false, vectors, nvectors, err);
}

int channel_wait_readable(struct channel *channel, uint64_t timeout_ns, struct error *err)
{
    struct io_uring_sqe *sqe;
    int events;

    if (channel->cancelled && !channel->forget_cancel)
        return transfer_failed(channel, false, ECANCELED, err);
    sqe = get_sqe(channel);
    if (!sqe)
        return error_set(err, EBUSY, "io_uring has no free submission entry");
    io_uring_prep_poll_add(sqe, channel->in_fd, POLLIN);
    events = run_transfer(channel, sqe, clock_now_ns() + timeout_ns);
    if (events == -ETIMEDOUT)
        return 0;
    if (events < 0)
        return transfer_failed(channel, false, -events, err);
    return 1;
}

uint64_t channel_bound(struct channel *channel)
{
    uint64_t outer = channel->limit_ns;
    uint64_t inner = clock_now_ns() + channel->deadline_ns;

    if (!outer || inner < outer)
        channel->limit_ns = inner;
    return outer;
}

void channel_unbound(struct channel *channel, uint64_t outer)
{
    channel->limit_ns = outer;
}

uint64_t channel_sent_bytes(const struct channel *channel)
{
    return channel->sent;
}

uint64_t channel_received_bytes(const struct channel *channel)
{
    return channel->received;
}

void channel_forget_cancel(struct channel *channel)
{
    channel->forget_cancel = true;
}
