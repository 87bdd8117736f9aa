/* SPDX-License-Identifier: MIT */
#include "migrate/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "migrate/channel_ring.h"
#include "vmm/base/clock.h"

/* Completions have twice as many: room for the notifications of zero-copy sends. */
#define CHANNEL_RING_ENTRIES 64
#define KEEPALIVE_INTERVAL_S 2
#define KEEPALIVE_PROBES     3

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
static void tune_socket(int fd, uint64_t deadline_ns, uint64_t keepalive_ns)
{
    int one = 1,
        idle = (int)((keepalive_ns ? keepalive_ns : MIGRATE_KEEPALIVE_NS) / CLOCK_NS_PER_SEC),
        interval = KEEPALIVE_INTERVAL_S;
    int probes = KEEPALIVE_PROBES;
    unsigned timeout_ms = (unsigned)(deadline_ns / CLOCK_NS_PER_MS);

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
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
        tune_socket(out_fd, options->deadline_ns, options->keepalive_ns);
    if (options->cancel_fd >= 0) {
        struct io_uring_sqe *sqe = channel_ring_sqe(channel); /* the first of an empty ring */

        if (sqe) {
            io_uring_prep_poll_add(sqe, options->cancel_fd, POLLIN);
            io_uring_sqe_set_data64(sqe, CHANNEL_TOKEN_CANCEL_POLL);
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
    channel_file_close(channel);
    (void)close(channel->in_fd);
    if (channel->out_fd != channel->in_fd)
        (void)close(channel->out_fd);
    free(channel);
}

int channel_send(struct channel *channel, struct iovec *vectors, unsigned nvectors,
                 struct error *err)
{
    return channel_ring_transfer(channel, CHANNEL_SEND, vectors, nvectors, err);
}

int channel_receive(struct channel *channel, struct iovec *vectors, unsigned nvectors,
                    struct error *err)
{
    return channel_ring_transfer(channel, CHANNEL_RECEIVE, vectors, nvectors, err);
}

static bool is_tcp(int fd)
{
    int protocol = 0;
    socklen_t length = sizeof(protocol);

    return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
           protocol == IPPROTO_TCP;
}

/* Since Linux 6.1. */
static bool kernel_has_zerocopy(struct channel *channel)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(&channel->ring);
    bool has = probe && io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);

    io_uring_free_probe(probe);
    return has;
}

int channel_use_zerocopy(struct channel *channel, enum channel_zerocopy wanted, struct error *err)
{
    const char *why = NULL;

    if (wanted != CHANNEL_ZEROCOPY_OFF && !(channel->is_socket && is_tcp(channel->out_fd)))
        why = "zero-copy needs TCP";
    else if (wanted != CHANNEL_ZEROCOPY_OFF && !kernel_has_zerocopy(channel))
        why = "zero-copy needs Linux 6.1";
    if (why && wanted == CHANNEL_ZEROCOPY_ON)
        return error_set(err, EOPNOTSUPP, "%s: use --zero-copy auto or off", why);
    channel->zerocopy = why ? CHANNEL_ZEROCOPY_UNSUPPORTED : wanted;
    return 0;
}

enum channel_zerocopy channel_zerocopy_state(const struct channel *channel)
{
    return channel->zerocopy;
}

uint64_t channel_zerocopy_bytes(const struct channel *channel)
{
    return channel->zerocopy_bytes;
}

static int send_files(struct channel *channel, struct iovec *vectors,
                      const struct channel_file *files, unsigned nvectors, struct error *err)
{
    int rc = channel_ring_transfer(channel, CHANNEL_SEND_MORE, vectors, 1, err);

    return rc ? rc : channel_file_send(channel, vectors + 1, files + 1, nvectors - 1, err);
}

int channel_send_pages(struct channel *channel, struct iovec *vectors,
                       const struct channel_file *files, unsigned nvectors, struct error *err)
{
    uint64_t bytes = 0;
    int rc;

    for (unsigned i = 1; i < nvectors; i++)
        bytes += vectors[i].iov_len;
    if (!bytes ||
        (channel->zerocopy != CHANNEL_ZEROCOPY_ON && channel->zerocopy != CHANNEL_ZEROCOPY_AUTO))
        return channel_send(channel, vectors, nvectors, err);
    if (files && channel_file_ready(channel))
        return send_files(channel, vectors, files, nvectors, err);
    if (bytes < CHANNEL_ZEROCOPY_MIN_BYTES)
        return channel_send(channel, vectors, nvectors, err);
    rc = channel_ring_transfer(channel, CHANNEL_SEND_MORE, vectors, 1, err);
    return rc ? rc
              : channel_ring_transfer(channel, CHANNEL_SEND_ZEROCOPY, vectors + 1, nvectors - 1,
                                      err);
}

int channel_settle(struct channel *channel, struct error *err)
{
    return channel_ring_settle(channel, 0, err);
}

int channel_wait_readable(struct channel *channel, uint64_t timeout_ns, struct error *err)
{
    return channel_ring_poll(channel, timeout_ns, err);
}

uint64_t channel_unacknowledged(const struct channel *channel)
{
    int bytes = 0;

    if (!channel->is_socket || ioctl(channel->out_fd, TIOCOUTQ, &bytes) || bytes < 0)
        return 0;
    return (uint64_t)bytes;
}

void channel_shut(struct channel *channel, bool both_ways)
{
    if (both_ways)
        __atomic_store_n(&channel->shut, true, __ATOMIC_RELAXED);
    if (channel->is_socket)
        (void)shutdown(channel->in_fd, both_ways ? SHUT_RDWR : SHUT_RD);
}

int channel_fd(const struct channel *channel)
{
    return channel->in_fd;
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

uint64_t channel_deadline_ns(const struct channel *channel)
{
    return channel->deadline_ns;
}

uint64_t channel_sent_bytes(const struct channel *channel)
{
    return channel->sent;
}

uint64_t channel_received_bytes(const struct channel *channel)
{
    return __atomic_load_n(&channel->received, __ATOMIC_RELAXED);
}

void channel_forget_cancel(struct channel *channel)
{
    channel->forget_cancel = true;
}
