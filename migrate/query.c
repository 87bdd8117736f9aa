/* SPDX-License-Identifier: MIT */
#include "migrate/query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/record.h"

static struct wire_hello hello_of(enum wire_role role, const uint8_t *session)
{
    struct wire_hello hello = {.version_min = WIRE_VERSION_MIN,
                               .version_max = WIRE_VERSION_MAX,
                               .role = (uint16_t)role,
                               .stream_count = 1,
                               .page_bytes = MIGRATE_PAGE_BYTES};

    memcpy(hello.session, session, sizeof(hello.session));
    return hello;
}

static int receive_answer(struct record_link *link, enum wire_answer *answer, struct error *err)
{
    struct record *record = malloc(sizeof(*record));
    uint64_t value;
    int rc;

    if (!record)
        return error_set(err, ENOMEM, "no memory for a question");
    rc = record_expect(link, WIRE_ANSWER, 0, record, err);
    if (!rc) {
        value = record->header.meta_bytes == sizeof(value) ? wire_get_u64(record->meta) : 0;
        if (value < WIRE_ANSWER_RUNNING || value > WIRE_ANSWER_UNKNOWN)
            rc = error_set(err, EPROTO, "an ANSWER that says nothing (%" PRIu64 ")", value);
        else
            *answer = (enum wire_answer)value;
    }
    free(record);
    return rc;
}

int query_ask(struct channel *channel, const uint8_t *session, enum wire_answer *answer,
              struct error *err)
{
    struct record_link link = {.channel = channel};
    struct wire_hello hello = hello_of(WIRE_ROLE_SOURCE, session);
    struct wire_hello peer;
    uint64_t outer = channel_bound(channel);
    uint16_t version;
    int rc;

    hello.flags = WIRE_HELLO_QUERY;
    rc = record_send_hello(&link, &hello, err);
    if (!rc)
        rc = record_receive_hello(&link, WIRE_ROLE_DESTINATION, &peer, err);
    if (!rc)
        rc = wire_choose_version(&peer, &version, err);
    if (!rc && memcmp(peer.session, session, WIRE_SESSION_BYTES) != 0)
        rc = error_set(err, EPROTO, "the destination answered for another session");
    if (!rc)
        rc = receive_answer(&link, answer, err);
    channel_unbound(channel, outer);
    return rc;
}

static int serve(struct record_link *link, const uint8_t *session, enum wire_answer answer,
                 const char *reason, bool *asked, struct error *err)
{
    struct wire_header header = {.type = WIRE_ANSWER};
    struct wire_hello peer, hello;
    uint8_t meta[sizeof(uint64_t)];
    uint16_t version;
    bool known;
    int rc = record_receive_hello(link, WIRE_ROLE_SOURCE, &peer, err);

    if (rc)
        return rc;
    hello = hello_of(WIRE_ROLE_DESTINATION, peer.session);
    rc = record_send_hello(link, &hello, err);
    if (!rc)
        rc = wire_choose_version(&peer, &version, err);
    if (rc)
        return rc;
    if (!(peer.flags & WIRE_HELLO_QUERY)) {
        record_send_error(link, reason);
        return error_set(err, EBUSY, "%s", reason);
    }
    known = session && memcmp(peer.session, session, WIRE_SESSION_BYTES) == 0;
    wire_put_u64(meta, (uint64_t)(known ? answer : WIRE_ANSWER_UNKNOWN));
    rc = record_send(link, &header, meta, sizeof(meta), NULL, 0, err);
    *asked = known && rc == 0;
    return rc;
}

int query_serve(struct channel *channel, const uint8_t *session, enum wire_answer answer,
                const char *reason, bool *asked, struct error *err)
{
    struct record_link link = {.channel = channel};
    uint64_t outer = channel_bound(channel);
    int rc;

    *asked = false;
    rc = serve(&link, session, answer, reason, asked, err);
    channel_unbound(channel, outer);
    return rc;
}
