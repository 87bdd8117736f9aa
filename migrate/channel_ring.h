/* SPDX-License-Identifier: MIT
 *
 * A channel's transfers on its io_uring. At most one is in flight, plus a poll of the cancel
 * descriptor and the notifications of zero-copy sends. Internal to the channel. */
#ifndef MIGRATE_CHANNEL_RING_H
#define MIGRATE_CHANNEL_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "migrate/channel.h"

/* user_data of the requests. */
enum channel_token {
    CHANNEL_TOKEN_TRANSFER = 1,
    CHANNEL_TOKEN_CANCEL_POLL,
    CHANNEL_TOKEN_GIVE_UP,
};

enum channel_direction {
    CHANNEL_RECEIVE,
    CHANNEL_SEND,
    CHANNEL_SEND_MORE,
    CHANNEL_SEND_ZEROCOPY,
    CHANNEL_SEND_FILE,
};

struct channel {
    struct io_uring ring;
    int in_fd, out_fd;
    bool is_socket;
    uint64_t deadline_ns;
    uint64_t limit_ns; /* 0: none */
    bool cancelled;
    bool forget_cancel;
    bool shut; /* both ways; atomic */
    uint64_t sent, received;
    enum channel_zerocopy zerocopy;
    unsigned notifications; /* sends whose pages the kernel may still read */
    uint64_t zerocopy_bytes;
    bool has_pipe; /* through which files are sent; empty between calls */
    int pipe[2];
};

/* The ring has more entries than a channel ever has in flight, so an SQE is always there after a
 * submit. */
struct io_uring_sqe *channel_ring_sqe(struct channel *channel);

/* Moves all bytes of the vectors; the contract of channel_send(). */
int channel_ring_transfer(struct channel *channel, enum channel_direction direction,
                          struct iovec *vectors, unsigned nvectors, struct error *err);

/* Bytes that were moved without the ring. */
void channel_ring_account(struct channel *channel, enum channel_direction direction,
                          uint64_t bytes);
/* Sets the line for what became of a transfer and returns -errno. */
int channel_ring_failed(const struct channel *channel, enum channel_direction direction, int code,
                        struct error *err);

/* Whether it has what sending from files needs. */
bool channel_file_ready(struct channel *channel);
/* Sends what the vectors would, from their files. Internal to channel_send_pages(). */
int channel_file_send(struct channel *channel, const struct iovec *vectors,
                      const struct channel_file *files, unsigned nvectors, struct error *err);
/* Closes what that needed. */
void channel_file_close(struct channel *channel);

/* Waits until at most `left` sends' notifications are missing. */
int channel_ring_settle(struct channel *channel, unsigned left, struct error *err);

/* When a wait that begins now is over. */
uint64_t channel_ring_until(const struct channel *channel);
/* Waits until something can be sent: 0, or -errno with a line. */
int channel_ring_wait_writable(struct channel *channel, uint64_t until_ns, struct error *err);

/* Polls for a readable byte: 1, 0 when the time is over, or -errno with a line. */
int channel_ring_poll(struct channel *channel, uint64_t timeout_ns, struct error *err);

#endif
