/* SPDX-License-Identifier: MIT
 *
 * An operation that must be given up is cancelled and its completion awaited before the call
 * returns: until then the kernel may still touch guest RAM. */
#include "migrate/channel_ring.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "vmm/base/clock.h"

#define CHANNEL_MAX_VECTORS 1024
/* Offset -1: read and write where the descriptor stands, as read(2) does. */
#define CURRENT_POSITION UINT64_MAX
/* include/uapi/linux/io_uring.h since Linux 6.2; Debian's liburing is older. */
#define SEND_ZC_REPORT_USAGE (1u << 3)
#define NOTIF_USAGE_COPIED   (1u << 31)
/* Pages that wait for their notification are locked: this many sends' worth. */
#define MAX_NOTIFICATIONS 64u
/* Nothing wakes a wait for notifications when the channel is shut: it looks by itself. */
#define SETTLE_SLICE_NS (100 * CLOCK_NS_PER_MS)

/* What came of the transfer under way. */
struct outcome {
    bool done;
    int result;
};

struct io_uring_sqe *channel_ring_sqe(struct channel *channel)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&channel->ring);

    if (!sqe && io_uring_submit(&channel->ring) >= 0)
        sqe = io_uring_get_sqe(&channel->ring);
    return sqe;
}

static void take_completion(struct channel *channel, const struct io_uring_cqe *cqe,
                            struct outcome *outcome)
{
    switch (io_uring_cqe_get_data64(cqe)) {
    case CHANNEL_TOKEN_TRANSFER:
        if (cqe->flags & IORING_CQE_F_NOTIF) {
            channel->notifications--;
            if (((uint32_t)cqe->res & NOTIF_USAGE_COPIED) &&
                channel->zerocopy == CHANNEL_ZEROCOPY_AUTO)
                channel->zerocopy = CHANNEL_ZEROCOPY_COPIED;
            break;
        }
        if (cqe->flags & IORING_CQE_F_MORE)
            channel->notifications++;
        outcome->done = true;
        outcome->result = cqe->res;
        break;
    case CHANNEL_TOKEN_CANCEL_POLL:
        channel->cancelled = true;
        break;
    default:
        break;
    }
}

/* Waits for completions until `until_ns`. Returns -ETIME when the time is over. */
static int wait_completion(struct channel *channel, uint64_t until_ns, struct outcome *outcome)
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
        take_completion(channel, cqe, outcome);
        io_uring_cqe_seen(&channel->ring, cqe);
    }
    return !outcome->done && rc == -ETIME ? -ETIME : 0;
}

/* Takes the transfer back from the kernel; on return nothing is in flight. */
static void give_up(struct channel *channel, struct outcome *outcome)
{
    struct io_uring_sqe *sqe = channel_ring_sqe(channel);

    if (!sqe)
        return; /* cannot be: the ring has more entries than this file uses */
    io_uring_prep_cancel64(sqe, CHANNEL_TOKEN_TRANSFER, 0);
    io_uring_sqe_set_data64(sqe, CHANNEL_TOKEN_GIVE_UP);
    while (!outcome->done) {
        int rc = wait_completion(channel, clock_now_ns() + CLOCK_NS_PER_SEC, outcome);

        if (rc && rc != -ETIME)
            return; /* the ring itself is gone, and with it the request */
    }
}

static bool is_cancelled(const struct channel *channel)
{
    return channel->cancelled && !channel->forget_cancel;
}

uint64_t channel_ring_until(const struct channel *channel)
{
    uint64_t until_ns = clock_now_ns() + channel->deadline_ns;

    return channel->limit_ns && channel->limit_ns < until_ns ? channel->limit_ns : until_ns;
}

/* Runs the prepared transfer to its completion. Returns bytes moved (>= 0) or -errno. */
static int run_transfer(struct channel *channel, struct io_uring_sqe *sqe, uint64_t until_ns)
{
    struct outcome outcome = {.done = false};
    int rc = 0;

    io_uring_sqe_set_data64(sqe, CHANNEL_TOKEN_TRANSFER);
    while (!outcome.done) {
        rc = wait_completion(channel, until_ns, &outcome);
        if (!rc && !outcome.done && is_cancelled(channel))
            rc = -ECANCELED;
        if (rc) {
            give_up(channel, &outcome);
            break;
        }
    }
    if (rc == -ETIME)
        rc = -ETIMEDOUT;
    /* Bytes that did move are told, even where the wait was given up: the next call reports the
     * failure. */
    if (outcome.done && outcome.result > 0)
        return outcome.result;
    return rc ? rc : outcome.result;
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

static void prepare_transfer(struct channel *channel, struct io_uring_sqe *sqe,
                             enum channel_direction direction, struct msghdr *message)
{
    unsigned count = (unsigned)message->msg_iovlen;

    if (direction == CHANNEL_SEND_ZEROCOPY) {
        io_uring_prep_sendmsg_zc(sqe, channel->out_fd, message, MSG_NOSIGNAL);
        if (channel->zerocopy == CHANNEL_ZEROCOPY_AUTO)
            sqe->ioprio |= SEND_ZC_REPORT_USAGE;
    } else if (channel->is_socket && direction == CHANNEL_RECEIVE) {
        io_uring_prep_recvmsg(sqe, channel->in_fd, message, 0);
    } else if (channel->is_socket) {
        io_uring_prep_sendmsg(sqe, channel->out_fd, message,
                              MSG_NOSIGNAL | (direction == CHANNEL_SEND_MORE ? MSG_MORE : 0));
    } else if (direction == CHANNEL_RECEIVE) {
        io_uring_prep_readv(sqe, channel->in_fd, message->msg_iov, count, CURRENT_POSITION);
    } else {
        io_uring_prep_writev(sqe, channel->out_fd, message->msg_iov, count, CURRENT_POSITION);
    }
}

int channel_ring_failed(const struct channel *channel, enum channel_direction direction, int code,
                        struct error *err)
{
    bool receive = direction == CHANNEL_RECEIVE;
    uint64_t offset = receive ? channel->received : channel->sent;
    const char *verb = receive ? "receiving" : "sending";

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

/* A zero-copy send that the kernel refused: another way to go on, or 0 for none. */
static enum channel_direction without_zerocopy(struct channel *channel, int code)
{
    if (code == -ENOMEM || code == -ENOBUFS) {
        /* Too much locked memory: what is under way has to come back first. */
        if (channel->notifications && channel_ring_settle(channel, 0, NULL) == 0)
            return CHANNEL_SEND_ZEROCOPY;
    } else if (code != -EINVAL && code != -EOPNOTSUPP) {
        return CHANNEL_RECEIVE;
    }
    if (channel->zerocopy != CHANNEL_ZEROCOPY_AUTO)
        return CHANNEL_RECEIVE;
    channel->zerocopy = CHANNEL_ZEROCOPY_UNSUPPORTED;
    return CHANNEL_SEND;
}

void channel_ring_account(struct channel *channel, enum channel_direction direction, uint64_t bytes)
{
    if (direction == CHANNEL_RECEIVE) /* other streams' threads look at it */
        (void)__atomic_fetch_add(&channel->received, bytes, __ATOMIC_RELAXED);
    else
        channel->sent += bytes;
    if (direction == CHANNEL_SEND_ZEROCOPY || direction == CHANNEL_SEND_FILE)
        channel->zerocopy_bytes += bytes;
}

int channel_ring_transfer(struct channel *channel, enum channel_direction direction,
                          struct iovec *vectors, unsigned nvectors, struct error *err)
{
    consume(&vectors, &nvectors, 0); /* drops empty vectors in front */
    while (nvectors) {
        struct msghdr message = {
            .msg_iov = vectors,
            .msg_iovlen = nvectors < CHANNEL_MAX_VECTORS ? nvectors : CHANNEL_MAX_VECTORS};
        struct io_uring_sqe *sqe;
        int moved;

        if (is_cancelled(channel))
            return channel_ring_failed(channel, direction, ECANCELED, err);
        if (channel->notifications >= MAX_NOTIFICATIONS) {
            moved = channel_ring_settle(channel, MAX_NOTIFICATIONS / 2, err);
            if (moved)
                return moved;
        }
        sqe = channel_ring_sqe(channel);
        if (!sqe)
            return error_set(err, EBUSY, "io_uring has no free submission entry");
        prepare_transfer(channel, sqe, direction, &message);
        moved = run_transfer(channel, sqe, channel_ring_until(channel));
        if (moved == -EINTR || moved == -EAGAIN)
            continue;
        if (moved < 0 && direction == CHANNEL_SEND_ZEROCOPY) {
            enum channel_direction other = without_zerocopy(channel, moved);

            if (other != CHANNEL_RECEIVE) {
                direction = other;
                continue;
            }
        }
        if (moved == 0)
            moved = -ECONNRESET;
        if (moved < 0)
            return channel_ring_failed(channel, direction, -moved, err);
        channel_ring_account(channel, direction, (uint64_t)moved);
        consume(&vectors, &nvectors, (size_t)moved);
    }
    return 0;
}

/* Whether it may go on waiting, after nothing came until `until_ns`: a notification may stand for
 * more bytes than a thin link takes in time, and those that the peer acknowledges are a sign. */
static bool peer_acknowledges(const struct channel *channel, uint64_t until_ns, uint64_t *held)
{
    uint64_t now_held = channel_unacknowledged(channel);
    bool moves = now_held < *held;

    *held = now_held;
    return moves && !(channel->limit_ns && until_ns >= channel->limit_ns);
}

int channel_ring_settle(struct channel *channel, unsigned left, struct error *err)
{
    uint64_t until_ns = channel_ring_until(channel);
    uint64_t held = channel_unacknowledged(channel);

    while (channel->notifications > left) {
        uint64_t slice_ns = clock_now_ns() + SETTLE_SLICE_NS;
        struct outcome outcome = {.done = false};
        unsigned before = channel->notifications;
        int rc = wait_completion(channel, slice_ns < until_ns ? slice_ns : until_ns, &outcome);
        bool moved = channel->notifications < before;

        if (rc == -ETIME && slice_ns >= until_ns)
            moved = moved || peer_acknowledges(channel, until_ns, &held);
        if (moved)
            until_ns = channel_ring_until(channel);
        if (rc == -ETIME && (moved || slice_ns < until_ns))
            rc = 0;
        if (!rc && is_cancelled(channel))
            rc = -ECANCELED;
        if (!rc && __atomic_load_n(&channel->shut, __ATOMIC_RELAXED))
            rc = -ECONNRESET;
        if (rc)
            return channel_ring_failed(channel, CHANNEL_SEND, rc == -ETIME ? ETIMEDOUT : -rc, err);
    }
    return 0;
}

/* 1, 0 when the time is over, or -errno with a line. */
static int poll_until(struct channel *channel, enum channel_direction direction, uint64_t until_ns,
                      struct error *err)
{
    bool receive = direction == CHANNEL_RECEIVE;
    struct io_uring_sqe *sqe;
    int events;

    if (is_cancelled(channel))
        return channel_ring_failed(channel, direction, ECANCELED, err);
    sqe = channel_ring_sqe(channel);
    if (!sqe)
        return error_set(err, EBUSY, "io_uring has no free submission entry");
    io_uring_prep_poll_add(sqe, receive ? channel->in_fd : channel->out_fd,
                           receive ? POLLIN : POLLOUT);
    events = run_transfer(channel, sqe, until_ns);
    if (events == -ETIMEDOUT)
        return 0;
    if (events < 0)
        return channel_ring_failed(channel, direction, -events, err);
    return 1;
}

int channel_ring_poll(struct channel *channel, uint64_t timeout_ns, struct error *err)
{
    return poll_until(channel, CHANNEL_RECEIVE, clock_now_ns() + timeout_ns, err);
}

int channel_ring_wait_writable(struct channel *channel, uint64_t until_ns, struct error *err)
{
    int rc = poll_until(channel, CHANNEL_SEND_FILE, until_ns, err);

    if (rc == 0)
        return channel_ring_failed(channel, CHANNEL_SEND_FILE, ETIMEDOUT, err);
    return rc < 0 ? rc : 0;
}
