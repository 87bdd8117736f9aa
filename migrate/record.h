/* SPDX-License-Identifier: MIT
 *
 * Whole records over a channel: HELLO, and header + metadata + payload with sequence numbers and
 * checksums. */
#ifndef MIGRATE_RECORD_H
#define MIGRATE_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "migrate/channel.h"
#include "migrate/wire.h"
#include "vmm/base/error.h"

/* One stream, both directions. */
struct record_link {
    struct channel *channel; /* borrowed */
    uint64_t next_sent, next_received;
    bool torn; /* a record was sent in part: the peer can no longer understand us */
};

/* A received record before its payload. */
struct record {
    struct wire_header header;
    uint8_t meta[WIRE_MAX_META_BYTES];
};

int record_send_hello(struct record_link *link, const struct wire_hello *hello, struct error *err);
int record_receive_hello(struct record_link *link, uint16_t expected_role, struct wire_hello *hello,
                         struct error *err);

/* Sends a record whose payload is one buffer (or none), hashed. The header's type, flags and round
 * are the caller's; lengths, sequence and hash are filled in. */
int record_send(struct record_link *link, struct wire_header *header, const void *meta,
                uint32_t meta_bytes, const void *payload, uint64_t payload_bytes,
                struct error *err);

/* Sends what the caller laid out himself: vectors[0] begins with WIRE_HEADER_BYTES for the header,
 * followed at once by header->meta_bytes of metadata. Consumes the vectors. */
int record_send_vectors(struct record_link *link, struct wire_header *header, struct iovec *vectors,
                        unsigned nvectors, struct error *err);

/* As record_send_vectors(), where the vectors after the first are guest RAM: channel_send_pages().
 */
int record_send_pages(struct record_link *link, struct wire_header *header, struct iovec *vectors,
                      const struct channel_file *files, unsigned nvectors, struct error *err);

/* Receives header and metadata, all checked. An ERROR record becomes -ECONNABORTED with the peer's
 * line. */
int record_receive(struct record_link *link, struct record *record, struct error *err);

/* As record_receive(), and -EPROTO unless it is of this type and round. */
int record_expect(struct record_link *link, uint16_t type, uint32_t round, struct record *record,
                  struct error *err);

/* The payload of a MACHINE or STATE record into fresh memory, hash checked. The caller frees
 * *payload. */
int record_receive_payload(struct record_link *link, const struct record *record, void **payload,
                           struct error *err);

/* Tells the peer why this end gives up, where it still can. */
void record_send_error(struct record_link *link, const char *reason);

/* After a failed send: the peer's reason, if it left one, replaces the line in err. */
void record_collect_error(struct record_link *link, struct error *err);

#endif
