/* SPDX-License-Identifier: MIT */
#include "migrate/record.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/clock.h"

/* How long a failing source listens for the reason that the destination may have sent before it
 * closed. */
#define COLLECT_ERROR_NS      (200 * CLOCK_NS_PER_MS)
#define COLLECT_ERROR_RECORDS 4 /* a SYNCED may be on its way before it */

int record_send_hello(struct record_link *link, const struct wire_hello *hello, struct error *err)
{
    uint8_t bytes[WIRE_HELLO_BYTES];
    struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};

    wire_put_hello(bytes, hello);
    return channel_send(link->channel, &vector, 1, err);
}

int record_receive_hello(struct record_link *link, uint16_t expected_role, struct wire_hello *hello,
                         struct error *err)
{
    uint8_t bytes[WIRE_HELLO_BYTES];
    struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    int rc = channel_receive(link->channel, &vector, 1, err);

    return rc ? rc : wire_get_hello(bytes, expected_role, hello, err);
}

/* Fills in the header, before anything is sent. */
static void begin_record(struct record_link *link, struct wire_header *header,
                         const struct iovec *head)
{
    uint8_t *bytes = head->iov_base;

    header->sequence = link->next_sent++;
    wire_put_header(bytes, header, bytes + WIRE_HEADER_BYTES);
}

/* What a failure leaves; `before` bytes had been sent before the record. */
static int end_record(struct record_link *link, uint64_t before, int rc)
{
    if (rc && channel_sent_bytes(link->channel) == before)
        link->next_sent--; /* the peer never saw any of it */
    else if (rc)
        link->torn = true;
    return rc;
}

int record_send_vectors(struct record_link *link, struct wire_header *header, struct iovec *vectors,
                        unsigned nvectors, struct error *err)
{
    uint64_t before = channel_sent_bytes(link->channel);

    begin_record(link, header, vectors);
    return end_record(link, before, channel_send(link->channel, vectors, nvectors, err));
}

int record_send_pages(struct record_link *link, struct wire_header *header, struct iovec *vectors,
                      const struct channel_file *files, unsigned nvectors, struct error *err)
{
    uint64_t before = channel_sent_bytes(link->channel);

    begin_record(link, header, vectors);
    return end_record(link, before,
                      channel_send_pages(link->channel, vectors, files, nvectors, err));
}

int record_send(struct record_link *link, struct wire_header *header, const void *meta,
                uint32_t meta_bytes, const void *payload, uint64_t payload_bytes, struct error *err)
{
    uint8_t head[WIRE_HEADER_BYTES + WIRE_MAX_REASON_BYTES];
    struct iovec vectors[2] = {{.iov_base = head, .iov_len = WIRE_HEADER_BYTES + meta_bytes}};

    /* Sending never writes through the vector; struct iovec just has no const. */
    memcpy(&vectors[1].iov_base, &payload, sizeof(payload));
    vectors[1].iov_len = (size_t)payload_bytes;
    header->meta_bytes = meta_bytes;
    header->payload_bytes = payload_bytes;
    if (meta_bytes)
        memcpy(head + WIRE_HEADER_BYTES, meta, meta_bytes);
    if (payload_bytes) {
        header->flags |= WIRE_FLAG_PAYLOAD_HASH;
        header->payload_hash = wire_hash(payload, (size_t)payload_bytes);
    }
    return record_send_vectors(link, header, vectors, 2, err);
}

/* The peer's line as text that is safe to print. */
static int peer_gave_up(const struct record *record, struct error *err)
{
    char reason[WIRE_MAX_REASON_BYTES + 1];
    uint32_t length = record->header.meta_bytes;

    for (uint32_t i = 0; i < length; i++) {
        unsigned char byte = record->meta[i];

        reason[i] = byte < 0x80 && isprint(byte) ? (char)byte : '?';
    }
    reason[length] = '\0';
    return error_set(err, ECONNABORTED, "the peer gave up: %s", reason);
}

static int receive_checked(struct record_link *link, struct record *record, struct error *err)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    uint64_t offset = channel_received_bytes(link->channel);
    int rc = channel_receive(link->channel, &vector, 1, err);

    if (rc)
        return rc;
    rc = wire_get_header(bytes, &record->header, err);
    if (!rc) {
        vector = (struct iovec){.iov_base = record->meta, .iov_len = record->header.meta_bytes};
        rc = channel_receive(link->channel, &vector, 1, err);
        if (rc)
            return rc;
        rc = wire_check_meta(bytes, record->meta, record->header.meta_bytes, err);
    }
    if (!rc && record->header.sequence != link->next_received)
        rc = error_set(err, EPROTO, "%s is record %" PRIu64 " where %" PRIu64 " was due",
                       wire_type_name(record->header.type), record->header.sequence,
                       link->next_received);
    if (rc) {
        error_prefix(err, "at byte %" PRIu64, offset);
        return rc;
    }
    link->next_received++;
    return record->header.type == WIRE_ERROR ? peer_gave_up(record, err) : 0;
}

int record_receive(struct record_link *link, struct record *record, struct error *err)
{
    uint64_t outer = channel_bound(link->channel);
    int rc = receive_checked(link, record, err);

    channel_unbound(link->channel, outer);
    return rc;
}

int record_expect(struct record_link *link, uint16_t type, uint32_t round, struct record *record,
                  struct error *err)
{
    int rc = record_receive(link, record, err);

    if (rc)
        return rc;
    if (record->header.type != type || record->header.round != round ||
        record->header.payload_bytes)
        return error_set(
            err, EPROTO, "got %s of round %" PRIu32 " where %s of round %" PRIu32 " was due",
            wire_type_name(record->header.type), record->header.round, wire_type_name(type), round);
    return 0;
}

int record_receive_payload(struct record_link *link, const struct record *record, void **payload,
                           struct error *err)
{
    size_t bytes = (size_t)record->header.payload_bytes; /* capped by wire_get_header() */
    struct iovec vector = {.iov_len = bytes};
    void *memory;
    int rc;

    if (bytes == 0 || !(record->header.flags & WIRE_FLAG_PAYLOAD_HASH))
        return error_set(err, EPROTO, "%s without a hashed payload",
                         wire_type_name(record->header.type));
    memory = malloc(bytes);
    if (!memory)
        return error_set(err, ENOMEM, "no memory for a %s record of %zu bytes",
                         wire_type_name(record->header.type), bytes);
    vector.iov_base = memory;
    rc = channel_receive(link->channel, &vector, 1, err);
    if (!rc && wire_hash(memory, bytes) != record->header.payload_hash)
        rc = error_set(err, EPROTO, "the payload of %s is damaged (wrong checksum)",
                       wire_type_name(record->header.type));
    if (rc) {
        free(memory);
        return rc;
    }
    *payload = memory;
    return 0;
}

void record_send_error(struct record_link *link, const char *reason)
{
    struct wire_header header = {.type = WIRE_ERROR};
    size_t length = strnlen(reason, WIRE_MAX_REASON_BYTES);

    if (link->torn)
        return;
    /* Best effort: the link may be what failed. */
    (void)record_send(link, &header, reason, (uint32_t)length, NULL, 0, NULL);
}

void record_collect_error(struct record_link *link, struct error *err)
{
    struct record *record = malloc(sizeof(*record));
    struct error reason = {.text = ""};
    int rc = record ? 0 : -ENOMEM;

    for (unsigned i = 0; !rc && i < COLLECT_ERROR_RECORDS; i++) {
        if (channel_wait_readable(link->channel, COLLECT_ERROR_NS, &reason) <= 0)
            break;
        rc = record_receive(link, record, &reason);
    }
    if (rc == -ECONNABORTED && err)
        *err = reason;
    free(record);
}
