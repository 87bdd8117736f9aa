/* SPDX-License-Identifier: MIT
 *
 * Records <-> bytes: exact bytes, so that neither the order of a field nor that of its bytes can
 * change, whatever the host's byte order; round trips; bytes that no peer of ours would send. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/wire.h"

static const struct wire_hello a_hello = {
    .version_min = 0x0102,
    .version_max = 0x0304,
    .role = WIRE_ROLE_SOURCE,
    .flags = WIRE_HELLO_CHECK,
    .features = 0x1112131415161718ull,
    .session = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad,
                0xae, 0xaf},
    .stream_index = 0x2122,
    .stream_count = 0x3132,
    .page_bytes = 0x41424344,
};

static const uint8_t hello_bytes[WIRE_HELLO_BYTES] = {
    'P',  'A',  'G',  'E',  'F',  'E',  'R',  'R',  /* magic */
    0x02, 0x01, 0x04, 0x03,                         /* versions */
    0x01, 0x00, 0x01, 0x00,                         /* role, flags */
    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* features */
    0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, /* session */
    0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, /* */
    0x22, 0x21, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41, /* streams, page size */
    0,    0,    0,    0,    0,    0,    0,    0,    /* reserved */
    0x12, 0xd8, 0xc2, 0x8b, 0x04, 0xf6, 0xca, 0x5e, /* checksum */
};

static const struct wire_header a_header = {
    .type = WIRE_PAGES,
    .flags = WIRE_FLAG_PAYLOAD_HASH | WIRE_FLAG_LAST,
    .round = 0x01020304,
    .codec = 0,
    .sequence = 0x1112131415161718ull,
    .meta_bytes = 2 * WIRE_RUN_BYTES,
    .payload_bytes = 0x2122000,
    .payload_hash = 0x3132333435363738ull,
};

static const struct wire_run some_runs[2] = {
    {.gpa = 0x0000001234567000ull, .npages = 0x01020304, .kind = WIRE_KIND_DATA},
    {.gpa = 0x00000f0000000000ull, .npages = 1, .kind = WIRE_KIND_ZERO},
};

static const uint8_t run_bytes[2 * WIRE_RUN_BYTES] = {
    0x00, 0x70, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x04, 0x03, 0x02, 0x01, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
};

static const uint8_t header_bytes[WIRE_HEADER_BYTES] = {
    'P',  'R',  'E',  'C',  0x03, 0x00, 0x03, 0x00, /* magic, type, flags */
    0x04, 0x03, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00, /* round, codec */
    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* sequence */
    0x20, 0x00, 0x00, 0x00, 0,    0,    0,    0,    /* metadata, reserved */
    0x00, 0x20, 0x12, 0x02, 0x00, 0x00, 0x00, 0x00, /* payload */
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, /* its hash */
    0,    0,    0,    0,    0,    0,    0,    0,    /* reserved */
    0x40, 0x99, 0xe6, 0xe4, 0xc1, 0x43, 0x06, 0x6b, /* checksum */
};

static void hello_has_its_bytes(void **state)
{
    uint8_t bytes[WIRE_HELLO_BYTES];

    (void)state;
    memset(bytes, 0xff, sizeof(bytes));
    wire_put_hello(bytes, &a_hello);
    assert_memory_equal(bytes, hello_bytes, sizeof(bytes));
}

static void hello_comes_back(void **state)
{
    struct wire_hello hello;
    struct error err = {.text = ""};

    (void)state;
    memset(&hello, 0xff, sizeof(hello));
    assert_int_equal(wire_get_hello(hello_bytes, WIRE_ROLE_SOURCE, &hello, &err), 0);
    assert_int_equal(hello.version_min, a_hello.version_min);
    assert_int_equal(hello.version_max, a_hello.version_max);
    assert_int_equal(hello.role, a_hello.role);
    assert_int_equal(hello.flags, a_hello.flags);
    assert_true(hello.features == a_hello.features);
    assert_memory_equal(hello.session, a_hello.session, WIRE_SESSION_BYTES);
    assert_int_equal(hello.stream_index, a_hello.stream_index);
    assert_int_equal(hello.stream_count, a_hello.stream_count);
    assert_int_equal(hello.page_bytes, a_hello.page_bytes);
}

/* Whatever byte is another one, the HELLO is refused. */
static void hello_is_checked(void **state)
{
    struct wire_hello hello;
    struct error err;

    (void)state;
    for (size_t i = 0; i < WIRE_HELLO_BYTES; i++) {
        uint8_t bytes[WIRE_HELLO_BYTES];

        memcpy(bytes, hello_bytes, sizeof(bytes));
        bytes[i] ^= 0x10;
        err.text[0] = '\0';
        assert_int_equal(wire_get_hello(bytes, WIRE_ROLE_SOURCE, &hello, &err), -EPROTO);
        assert_true(err.text[0] != '\0');
    }
    assert_int_equal(wire_get_hello(hello_bytes, WIRE_ROLE_DESTINATION, &hello, &err), -EPROTO);
    assert_non_null(strstr(err.text, "source too"));
}

static void versions_are_chosen(void **state)
{
    struct wire_hello peer = {.version_min = WIRE_VERSION_MIN,
                              .version_max = WIRE_VERSION_MAX + 7,
                              .stream_count = 1,
                              .page_bytes = MIGRATE_PAGE_BYTES};
    uint16_t version = 0;
    struct error err;

    (void)state;
    assert_int_equal(wire_choose_version(&peer, &version, &err), 0);
    assert_int_equal(version, WIRE_VERSION_MAX);
    peer.version_min = WIRE_VERSION_MAX + 1;
    assert_int_equal(wire_choose_version(&peer, &version, &err), -EPROTONOSUPPORT);
    peer.version_min = peer.version_max = WIRE_VERSION_MIN - 1;
    assert_int_equal(wire_choose_version(&peer, &version, &err), -EPROTONOSUPPORT);
    peer.version_max = WIRE_VERSION_MAX;
    peer.page_bytes = 16384;
    assert_int_equal(wire_choose_version(&peer, &version, &err), -EPROTO);
    peer.page_bytes = MIGRATE_PAGE_BYTES;
    peer.stream_index = 1;
    assert_int_equal(wire_choose_version(&peer, &version, &err), -EPROTO);
}

static void header_has_its_bytes(void **state)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    uint8_t meta[sizeof(run_bytes)];

    (void)state;
    wire_put_run(meta, &some_runs[0]);
    wire_put_run(meta + WIRE_RUN_BYTES, &some_runs[1]);
    assert_memory_equal(meta, run_bytes, sizeof(meta));
    memset(bytes, 0xff, sizeof(bytes));
    wire_put_header(bytes, &a_header, meta);
    assert_memory_equal(bytes, header_bytes, sizeof(bytes));
}

static void header_comes_back(void **state)
{
    struct wire_header header;
    struct error err = {.text = ""};

    (void)state;
    memset(&header, 0xff, sizeof(header));
    assert_int_equal(wire_get_header(header_bytes, &header, &err), 0);
    assert_int_equal(header.type, a_header.type);
    assert_int_equal(header.flags, a_header.flags);
    assert_int_equal(header.round, a_header.round);
    assert_int_equal(header.codec, a_header.codec);
    assert_true(header.sequence == a_header.sequence);
    assert_int_equal(header.meta_bytes, a_header.meta_bytes);
    assert_true(header.payload_bytes == a_header.payload_bytes);
    assert_true(header.payload_hash == a_header.payload_hash);
    assert_int_equal(wire_check_meta(header_bytes, run_bytes, sizeof(run_bytes), &err), 0);
    assert_string_equal(wire_type_name(header.type), "PAGES");
    assert_string_equal(wire_type_name(99), "unknown");
}

/* No byte of a header or of its metadata can change unseen. */
static void records_are_checked(void **state)
{
    struct error err;

    (void)state;
    for (size_t i = 0; i < WIRE_HEADER_BYTES; i++) {
        uint8_t bytes[WIRE_HEADER_BYTES];

        memcpy(bytes, header_bytes, sizeof(bytes));
        bytes[i] ^= 0x80;
        assert_int_equal(wire_check_meta(bytes, run_bytes, sizeof(run_bytes), &err), -EPROTO);
    }
    for (size_t i = 0; i < sizeof(run_bytes); i++) {
        uint8_t meta[sizeof(run_bytes)];

        memcpy(meta, run_bytes, sizeof(meta));
        meta[i] ^= 0x01;
        assert_int_equal(wire_check_meta(header_bytes, meta, sizeof(meta), &err), -EPROTO);
    }
    assert_int_equal(wire_check_meta(header_bytes, run_bytes, 0, &err), -EPROTO);
}

/* A header without metadata has a checksum of its own. */
static void no_metadata_is_checked_too(void **state)
{
    const struct wire_header sync = {.type = WIRE_SYNC, .round = 7};
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct error err;

    (void)state;
    wire_put_header(bytes, &sync, NULL);
    assert_int_equal(wire_check_meta(bytes, NULL, 0, &err), 0);
    bytes[8] ^= 1;
    assert_int_equal(wire_check_meta(bytes, NULL, 0, &err), -EPROTO);
}

static int get(struct wire_header header, struct error *err)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    static const uint8_t none[1];

    /* The checksum is not looked at here: lengths must be safe before it can be. */
    header.flags = 0;
    wire_put_header(bytes, &(struct wire_header){.type = header.type}, none);
    wire_put_u64(bytes + 16, header.sequence);
    memcpy(bytes + 24,
           (const uint8_t[]){(uint8_t)header.meta_bytes, (uint8_t)(header.meta_bytes >> 8),
                             (uint8_t)(header.meta_bytes >> 16),
                             (uint8_t)(header.meta_bytes >> 24)},
           4);
    bytes[12] = (uint8_t)header.codec;
    wire_put_u64(bytes + 32, header.payload_bytes);
    return wire_get_header(bytes, &header, err);
}

static void lengths_are_capped(void **state)
{
    static const struct {
        uint16_t type;
        uint32_t meta, payload;
    } most[] = {
        {WIRE_MACHINE, 0, WIRE_MAX_MACHINE_BYTES},
        {WIRE_EXTENTS, WIRE_MAX_META_BYTES, 0},
        {WIRE_PAGES, WIRE_MAX_META_BYTES, WIRE_MAX_PAGES_BYTES},
        {WIRE_SYNC, 0, 0},
        {WIRE_STATE, 0, WIRE_MAX_STATE_BYTES},
        {WIRE_COMMIT, 0, 0},
        {WIRE_ACCEPT, 0, 0},
        {WIRE_SYNCED, 0, 0},
        {WIRE_READY, 0, 0},
        {WIRE_RUNNING, 8, 0},
        {WIRE_ERROR, WIRE_MAX_REASON_BYTES, 0},
    };
    struct error err;

    (void)state;
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        struct wire_header header = {
            .type = most[i].type, .meta_bytes = most[i].meta, .payload_bytes = most[i].payload};

        assert_int_equal(get(header, &err), 0);
        header.meta_bytes++;
        assert_int_equal(get(header, &err), -EPROTO);
        assert_non_null(strstr(err.text, wire_type_name(header.type)));
        header.meta_bytes = UINT32_MAX;
        assert_int_equal(get(header, &err), -EPROTO);
        header.meta_bytes = most[i].meta;
        header.payload_bytes++;
        assert_int_equal(get(header, &err), -EPROTO);
        /* A length whose low half alone would pass. */
        header.payload_bytes = (1ull << 32) + most[i].payload;
        assert_int_equal(get(header, &err), -EPROTO);
        header.payload_bytes = UINT64_MAX;
        assert_int_equal(get(header, &err), -EPROTO);
        header.payload_bytes = most[i].payload;
        header.codec = 1;
        assert_int_equal(get(header, &err), -EPROTO);
    }
}

static void unknown_records_are_refused(void **state)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header;
    struct error err;

    (void)state;
    assert_int_equal(get((struct wire_header){.type = 0}, &err), -EPROTO);
    assert_int_equal(get((struct wire_header){.type = 7}, &err), -EPROTO);
    /* PAGES in the other byte order. */
    assert_int_equal(get((struct wire_header){.type = 0x0300}, &err), -EPROTO);
    assert_non_null(strstr(err.text, "768"));
    memcpy(bytes, header_bytes, sizeof(bytes));
    bytes[3] = 'c';
    assert_int_equal(wire_get_header(bytes, &header, &err), -EPROTO);
}

/* 8 pages at 1 MiB, 16 pages at 4 GiB. */
static const struct migrate_layout layout = {
    .region = {{.gpa = 0x100000, .npages = 8}, {.gpa = 0x100000000ull, .npages = 16}},
    .nregions = 2};

static int place(uint64_t gpa, uint32_t npages, uint32_t kind, struct wire_placed_run *placed)
{
    const struct wire_run run = {.gpa = gpa, .npages = npages, .kind = kind};
    uint8_t bytes[WIRE_RUN_BYTES];
    struct error err = {.text = ""};
    int rc;

    wire_put_run(bytes, &run);
    rc = wire_get_run(bytes, &layout, placed, &err);
    assert_int_equal(rc != 0, err.text[0] != '\0');
    return rc;
}

static void runs_find_their_region(void **state)
{
    struct wire_placed_run run;

    (void)state;
    assert_int_equal(place(0x100000, 8, WIRE_KIND_DATA, &run), 0);
    assert_int_equal(run.region, 0);
    assert_int_equal(run.first_page, 0);
    assert_int_equal(run.npages, 8);
    assert_int_equal(run.kind, WIRE_KIND_DATA);
    assert_int_equal(place(0x10000f000ull, 1, WIRE_KIND_POPULATED, &run), 0);
    assert_int_equal(run.region, 1);
    assert_int_equal(run.first_page, 15);
    assert_int_equal(run.npages, 1);
    assert_int_equal(run.kind, WIRE_KIND_POPULATED);
}

static void runs_outside_are_refused(void **state)
{
    struct wire_placed_run run;

    (void)state;
    assert_int_equal(place(0xff000, 1, WIRE_KIND_DATA, &run), -EPROTO);        /* below */
    assert_int_equal(place(0x108000, 1, WIRE_KIND_DATA, &run), -EPROTO);       /* between */
    assert_int_equal(place(0x107000, 2, WIRE_KIND_DATA, &run), -EPROTO);       /* over the end */
    assert_int_equal(place(0x100010000ull, 1, WIRE_KIND_DATA, &run), -EPROTO); /* above */
    assert_int_equal(place(0x100000, UINT32_MAX, WIRE_KIND_DATA, &run), -EPROTO);
    assert_int_equal(place(0xfffffffffffff000ull, 2, WIRE_KIND_DATA, &run), -EPROTO);
    assert_int_equal(place(0x100000, 0, WIRE_KIND_DATA, &run), -EPROTO); /* nothing */
    assert_int_equal(place(0x100800, 1, WIRE_KIND_DATA, &run), -EPROTO); /* half a page */
    assert_int_equal(place(0x100000, 1, 0, &run), -EPROTO);              /* no kind */
    assert_int_equal(place(0x100000, 1, WIRE_KIND_POPULATED + 1, &run), -EPROTO);
    assert_int_equal(place(0x100000, 1, 1u << 24, &run), -EPROTO); /* DATA, bytes reversed */
}

static void numbers_are_little_endian(void **state)
{
    static const uint8_t bytes[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    uint8_t out[9];

    (void)state;
    wire_put_u64(out + 1, 0x0102030405060708ull); /* at an odd address */
    assert_memory_equal(out + 1, bytes, sizeof(bytes));
    assert_true(wire_get_u64(out + 1) == 0x0102030405060708ull);
    /* XXH3-64 of the empty message, and of "abc" (the reference library's numbers). */
    assert_true(wire_hash("", 0) == 0x2d06800538d394c2ull);
    assert_true(wire_hash("abc", 3) == 0x78af5f94892f3950ull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_has_its_bytes),       cmocka_unit_test(hello_comes_back),
        cmocka_unit_test(hello_is_checked),          cmocka_unit_test(versions_are_chosen),
        cmocka_unit_test(header_has_its_bytes),      cmocka_unit_test(header_comes_back),
        cmocka_unit_test(records_are_checked),       cmocka_unit_test(no_metadata_is_checked_too),
        cmocka_unit_test(lengths_are_capped),        cmocka_unit_test(unknown_records_are_refused),
        cmocka_unit_test(runs_find_their_region),    cmocka_unit_test(runs_outside_are_refused),
        cmocka_unit_test(numbers_are_little_endian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
