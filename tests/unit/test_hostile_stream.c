/* SPDX-License-Identifier: MIT
 *
 * The destination's engine against streams that no honest source sends: cut short at every length,
 * every bit flipped, and well-formed lies. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/wire.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/replay.h"

static const uint64_t sizes[FAKE_REGIONS] = {REPLAY_PAGES_0, REPLAY_PAGES_1};

static enum receive_outcome replay(const uint8_t *bytes, size_t length, struct error *err)
{
    struct fake_guest guest;
    enum receive_outcome outcome;

    err->text[0] = '\0';
    fake_guest_init(&guest, sizes, false);
    outcome = replay_stream(bytes, length, &guest, err);
    assert_int_equal(guest.ran, outcome == RECEIVE_RUNNING);
    assert_int_equal(guest.created && !guest.ran, guest.discarded);
    fake_guest_free(&guest);
    return outcome;
}

static void test_whole_stream(void **state)
{
    size_t length;
    uint8_t *bytes = replay_record(&length);
    struct error err;

    (void)state;
    assert_int_equal(replay(bytes, length, &err), RECEIVE_RUNNING);
    free(bytes);
}

static void test_truncated(void **state)
{
    size_t length;
    uint8_t *bytes = replay_record(&length);
    struct wire_header machine;
    size_t machine_end;

    (void)state;
    assert_int_equal(wire_get_header(bytes + WIRE_HELLO_BYTES, &machine, NULL), 0);
    machine_end = WIRE_HELLO_BYTES + WIRE_HEADER_BYTES + (size_t)machine.payload_bytes;
    for (size_t cut = 0; cut < length; cut += cut < 1024 ? 1 : 61) {
        struct error err;
        enum receive_outcome outcome = replay(bytes, cut, &err);

        /* Where only COMMIT is missing, the source may have sent it. */
        assert_int_equal(outcome, cut < machine_end                  ? RECEIVE_STRANGER
                                  : cut < length - WIRE_HEADER_BYTES ? RECEIVE_DISCARDED
                                                                     : RECEIVE_ABANDONED);
        assert_true(err.text[0] != '\0');
    }
    free(bytes);
}

/* Pages carry no checksum unless asked for: there a flipped bit is the guest's data. Anywhere else
 * it must be noticed. */
static size_t page_bytes_end(const uint8_t *bytes, size_t length, size_t at)
{
    size_t offset = WIRE_HELLO_BYTES;

    while (offset + WIRE_HEADER_BYTES <= length) {
        struct wire_header header;
        size_t payload;

        assert_int_equal(wire_get_header(bytes + offset, &header, NULL), 0);
        payload = offset + WIRE_HEADER_BYTES + header.meta_bytes;
        offset = payload + (size_t)header.payload_bytes;
        if (header.type == WIRE_PAGES && at >= payload && at < offset)
            return offset;
        if (at < offset)
            break;
    }
    return 0;
}

static void test_bit_flips(void **state)
{
    size_t length;
    uint8_t *bytes = replay_record(&length);

    (void)state;
    for (size_t at = 0; at < length; at++) {
        size_t end = page_bytes_end(bytes, length, at);
        struct error err;
        unsigned bit = (unsigned)(at * 7 % 8);

        if (end) {
            at = end - 1;
            continue;
        }
        bytes[at] ^= (uint8_t)(1u << bit);
        assert_int_not_equal(replay(bytes, length, &err), RECEIVE_RUNNING);
        assert_true(err.text[0] != '\0');
        bytes[at] ^= (uint8_t)(1u << bit);
    }
    free(bytes);
}

/* ---- Lies with a right checksum: each replaces one record's header and metadata. */

struct lie {
    uint16_t type; /* which record */
    void (*tell)(struct wire_header *header, uint8_t *meta);
    const char *line;
};

static void outside_ram(struct wire_header *header, uint8_t *meta)
{
    (void)header;
    wire_put_u64(meta, (REPLAY_PAGES_0 + 5) * MIGRATE_PAGE_BYTES);
}

static void wraps_around(struct wire_header *header, uint8_t *meta)
{
    (void)header;
    wire_put_u64(meta, UINT64_MAX - MIGRATE_PAGE_BYTES + 1);
}

static void ends_past_ram(struct wire_header *header, uint8_t *meta)
{
    struct wire_run run = {
        .gpa = (REPLAY_PAGES_0 - 1) * MIGRATE_PAGE_BYTES, .npages = 2, .kind = WIRE_KIND_DATA};

    (void)header;
    wire_put_run(meta, &run);
}

static void huge_run(struct wire_header *header, uint8_t *meta)
{
    struct wire_run run = {.gpa = 0, .npages = UINT32_MAX, .kind = WIRE_KIND_ZERO};

    (void)header;
    wire_put_run(meta, &run);
}

static void empty_run(struct wire_header *header, uint8_t *meta)
{
    struct wire_run run = {.gpa = 0, .npages = 0, .kind = WIRE_KIND_ZERO};

    (void)header;
    wire_put_run(meta, &run);
}

static void strange_kind(struct wire_header *header, uint8_t *meta)
{
    struct wire_run run = {.gpa = 0, .npages = 1, .kind = 77};

    (void)header;
    wire_put_run(meta, &run);
}

static void less_data_than_payload(struct wire_header *header, uint8_t *meta)
{
    struct wire_run run = {.gpa = 0, .npages = 1, .kind = WIRE_KIND_ZERO};

    (void)header;
    wire_put_run(meta, &run);
}

static void other_round(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->round = 9;
}

static void other_sequence(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->sequence = 40;
}

static void unknown_type(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->type = 999;
}

static void out_of_place(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->type = WIRE_COMMIT;
}

static void unknown_codec(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->codec = 3;
}

static void huge_payload(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->payload_bytes = UINT64_MAX;
}

static void huge_meta(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->meta_bytes = UINT32_MAX;
}

static void without_hash(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->flags = 0;
}

static void wrong_hash(struct wire_header *header, uint8_t *meta)
{
    (void)meta;
    header->flags |= WIRE_FLAG_PAYLOAD_HASH;
    header->payload_hash ^= 1;
}

static const struct lie lies[] = {
    {WIRE_PAGES, outside_ram, "is not guest RAM"},
    {WIRE_PAGES, wraps_around, "is not guest RAM"},
    {WIRE_PAGES, ends_past_ram, "is not guest RAM"},
    {WIRE_PAGES, huge_run, "is not guest RAM"},
    {WIRE_EXTENTS, outside_ram, "is not guest RAM"},
    {WIRE_EXTENTS, huge_run, "is not guest RAM"},
    {WIRE_EXTENTS, empty_run, "a run of 0 pages"},
    {WIRE_EXTENTS, less_data_than_payload, "EXTENTS with a run of kind 2"},
    {WIRE_PAGES, empty_run, "a run of 0 pages"},
    {WIRE_PAGES, strange_kind, "unknown kind 77"},
    {WIRE_PAGES, less_data_than_payload, "and a payload of"},
    {WIRE_PAGES, other_round, "PAGES of round 9 in round 0"},
    {WIRE_PAGES, other_sequence, "is record 40 where"},
    {WIRE_PAGES, unknown_type, "unknown record type 999"},
    {WIRE_PAGES, out_of_place, "COMMIT with"},
    {WIRE_PAGES, unknown_codec, "codec 3"},
    {WIRE_PAGES, huge_payload, "bytes of payload (at most"},
    {WIRE_PAGES, huge_meta, "bytes of metadata (at most"},
    {WIRE_PAGES, wrong_hash, "payload of PAGES is damaged"},
    {WIRE_MACHINE, huge_payload, "bytes of payload (at most"},
    {WIRE_MACHINE, without_hash, "without a hashed payload"},
    {WIRE_MACHINE, wrong_hash, "payload of MACHINE is damaged"},
    {WIRE_MACHINE, other_round, "where MACHINE was due"},
    {WIRE_SYNC, other_round, "SYNC of round 9 in round 0"},
    {WIRE_SYNC, out_of_place, "COMMIT is out of place"},
    {WIRE_STATE, huge_payload, "bytes of payload (at most"},
    {WIRE_STATE, wrong_hash, "payload of STATE is damaged"},
    {WIRE_COMMIT, other_round, "where COMMIT of round 1 was due"},
};

/* Offset of the first record of a type. */
static size_t find_record(const uint8_t *bytes, size_t length, uint16_t type,
                          struct wire_header *header)
{
    size_t offset = WIRE_HELLO_BYTES;

    while (offset < length) {
        assert_int_equal(wire_get_header(bytes + offset, header, NULL), 0);
        if (header->type == type)
            return offset;
        offset += WIRE_HEADER_BYTES + header->meta_bytes + (size_t)header->payload_bytes;
    }
    fail_msg("no record of type %u", (unsigned)type);
    return 0;
}

static void test_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        size_t length, at;
        uint8_t *bytes = replay_record(&length);
        struct wire_header header;
        uint32_t meta_bytes;
        struct error err;

        at = find_record(bytes, length, lies[i].type, &header);
        meta_bytes = header.meta_bytes;
        lies[i].tell(&header, bytes + at + WIRE_HEADER_BYTES);
        if (header.meta_bytes == meta_bytes) {
            wire_put_header(bytes + at, &header, bytes + at + WIRE_HEADER_BYTES);
        } else {
            /* No metadata of that length exists to hash: the cap must be checked first. */
            memset(bytes + at + 24, 0xff, 4);
        }
        assert_int_equal(replay(bytes, length, &err),
                         lies[i].type == WIRE_MACHINE  ? RECEIVE_STRANGER
                         : lies[i].type == WIRE_COMMIT ? RECEIVE_ABANDONED
                                                       : RECEIVE_DISCARDED);
        if (!strstr(err.text, lies[i].line))
            fail_msg("lie %zu: '%s' has no '%s'", i, err.text, lies[i].line);
        free(bytes);
    }
}

static void test_versions(void **state)
{
    size_t length;
    uint8_t *bytes = replay_record(&length);
    struct wire_hello hello;
    struct error err;

    (void)state;
    assert_int_equal(wire_get_hello(bytes, WIRE_ROLE_SOURCE, &hello, &err), 0);
    hello.version_min = 2;
    hello.version_max = 5;
    wire_put_hello(bytes, &hello);
    assert_int_equal(replay(bytes, length, &err), RECEIVE_STRANGER);
    assert_non_null(strstr(err.text, "this end speaks 1 to 1, the peer 2 to 5"));
    hello.version_min = 1;
    wire_put_hello(bytes, &hello); /* 1 to 5: version 1 is common */
    assert_int_equal(replay(bytes, length, &err), RECEIVE_RUNNING);
    hello.role = WIRE_ROLE_DESTINATION;
    wire_put_hello(bytes, &hello);
    assert_int_equal(replay(bytes, length, &err), RECEIVE_STRANGER);
    assert_non_null(strstr(err.text, "two of a kind"));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_stream), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bit_flips),    cmocka_unit_test(test_lies),
        cmocka_unit_test(test_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
