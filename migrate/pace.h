/* SPDX-License-Identifier: MIT
 *
 * Keeps a sender within a number of bytes per second. Pure: the caller reads the clock and sleeps.
 */
#ifndef MIGRATE_PACE_H
#define MIGRATE_PACE_H

#include <stdint.h>

/* A sender that fell behind may catch up by at most this much time's worth of bytes, so that any
 * second stays close to the limit. */
#define PACE_CATCH_UP_NS (20ull * 1000 * 1000)

struct pace {
    uint64_t bytes_per_s; /* 0 = unlimited */
    uint64_t next_ns;     /* when the next byte is due */
};

void pace_init(struct pace *pace, uint64_t bytes_per_s, uint64_t now_ns);

/* How long to wait before sending now; 0 = at once. */
uint64_t pace_wait_ns(const struct pace *pace, uint64_t now_ns);

/* Accounts for bytes that are being sent now. */
void pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_ns);

/* The largest batch that keeps waits short at this rate, at most `max_bytes`, at least one page. */
uint64_t pace_batch_bytes(const struct pace *pace, uint64_t max_bytes);

#endif
