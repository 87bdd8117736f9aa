/* SPDX-License-Identifier: MIT
 *
 * One byte stream between two ends (TCP or UNIX socket, or a pair of pipes), driven by an io_uring
 * of its own. Every wait has a deadline and can be cancelled. One thread uses a channel at a time.
 */
#ifndef MIGRATE_CHANNEL_H
#define MIGRATE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "vmm/base/error.h"

/* The default deadline. */
#define MIGRATE_DEADLINE_NS (10ull * 1000 * 1000 * 1000)

/* What users may set, and the default of keep-alive. */
#define MIGRATE_MIN_DEADLINE_NS  (100ull * 1000 * 1000)
#define MIGRATE_MAX_DEADLINE_NS  (3600ull * 1000 * 1000 * 1000)
#define MIGRATE_KEEPALIVE_NS     (5ull * 1000 * 1000 * 1000)
#define MIGRATE_MIN_KEEPALIVE_NS (1ull * 1000 * 1000 * 1000)
#define MIGRATE_MAX_KEEPALIVE_NS (3600ull * 1000 * 1000 * 1000)

struct channel;

struct channel_options {
    uint64_t deadline_ns;  /* longest wait in which no byte moves */
    uint64_t keepalive_ns; /* TCP: silence before the kernel probes; whole seconds, 0 = default */
    int cancel_fd; /* an eventfd: once readable, every call fails with -ECANCELED; -1 = none */
};

/* Takes over both descriptors (they may be equal); closes them on failure too. Sockets get
 * keep-alive, TCP_NODELAY and TCP_USER_TIMEOUT = deadline. */
int channel_open(struct channel **out, int in_fd, int out_fd, const struct channel_options *options,
                 struct error *err);
/* Closes the descriptors. NULL is fine. */
void channel_close(struct channel *channel);

/* Sends or receives all bytes of the vectors (which are consumed: base and len change). On return
 * nothing is in flight: the memory is the caller's again, whatever the result. -ETIMEDOUT: no byte
 * moved for deadline_ns. -ECANCELED. -ECONNRESET: the peer closed (for a receive, with the byte
 * offset in the line). Other -errno from the kernel. At most 1024 vectors. */
int channel_send(struct channel *channel, struct iovec *vectors, unsigned nvectors,
                 struct error *err);
int channel_receive(struct channel *channel, struct iovec *vectors, unsigned nvectors,
                    struct error *err);

/* Zero-copy: the kernel sends from the pages themselves. */
enum channel_zerocopy {
    CHANNEL_ZEROCOPY_OFF,
    CHANNEL_ZEROCOPY_ON,          /* always, even where the kernel copies all the same */
    CHANNEL_ZEROCOPY_AUTO,        /* until the kernel says that it copied */
    CHANNEL_ZEROCOPY_COPIED,      /* what became of AUTO: it did */
    CHANNEL_ZEROCOPY_UNSUPPORTED, /* what became of AUTO: this kernel or socket has no zero-copy */
};
/* Below this a copy is cheaper than locking pages. */
#define CHANNEL_ZEROCOPY_MIN_BYTES (32u * 1024)

/* OFF, ON or AUTO. -EOPNOTSUPP for ON where it cannot be. */
int channel_use_zerocopy(struct channel *channel, enum channel_zerocopy wanted, struct error *err);
enum channel_zerocopy channel_zerocopy_state(const struct channel *channel);
/* Bytes that were sent by zero-copy requests, copied by the kernel or not, or from files. */
uint64_t channel_zerocopy_bytes(const struct channel *channel);

/* Where the bytes of a vector lie in a file too, which the vector maps. */
struct channel_file {
    int fd; /* borrowed */
    uint64_t offset;
};

/* As channel_send(), but all vectors except the first may be read by the kernel until
 * channel_settle() returned 0 or the channel is closed: guest RAM, which may change meanwhile.
 * `files`, one for each vector (the first has none): then, with zero-copy AUTO or ON, the pages of
 * the files themselves are sent, without a limit of size, and may be read until the peer has them:
 * no settling waits for that. NULL: there are none. */
int channel_send_pages(struct channel *channel, struct iovec *vectors,
                       const struct channel_file *files, unsigned nvectors, struct error *err);
int channel_settle(struct channel *channel, struct error *err);

/* Waits until a byte can be received: 1; or the time is over: 0; or -errno as above. */
int channel_wait_readable(struct channel *channel, uint64_t timeout_ns, struct error *err);

/* From here to channel_unbound() all waits together last no longer than one deadline, however
 * steadily bytes drip. Returns what channel_unbound() takes; an outer bound stays in force. */
uint64_t channel_bound(struct channel *channel);
void channel_unbound(struct channel *channel, uint64_t outer);

uint64_t channel_deadline_ns(const struct channel *channel);

/* Bytes moved so far: the offset that errors name. Received bytes: any thread. */
uint64_t channel_sent_bytes(const struct channel *channel);
uint64_t channel_received_bytes(const struct channel *channel);

/* Bytes that the kernel still holds for the peer; 0 where it cannot be told. */
uint64_t channel_unacknowledged(const struct channel *channel);

/* Any thread: wakes whoever receives, with -ECONNRESET; `both_ways` also whoever sends. */
void channel_shut(struct channel *channel, bool both_ways);

/* The descriptor it receives from, for a poll beside it. */
int channel_fd(const struct channel *channel);

/* From now on cancellation is ignored: used from COMMIT on. */
void channel_forget_cancel(struct channel *channel);

#endif
