/* SPDX-License-Identifier: MIT
 *
 * Wire format version 1: records <-> bytes. Pure: no I/O, no allocation. Everything is explicit
 * little-endian; docs/wire-format.md is the normative text. Whatever is decoded here comes from a
 * hostile peer: decoders return -EPROTO (or -EPROTONOSUPPORT for a version) with a line that says
 * what is wrong. */
#ifndef MIGRATE_WIRE_H
#define MIGRATE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "migrate/endpoint.h"
#include "vmm/base/error.h"

#define WIRE_VERSION_MIN 1
#define WIRE_VERSION_MAX 1

/* ---- HELLO: the first bytes in both directions; its layout never changes between versions. */
#define WIRE_HELLO_BYTES   64
#define WIRE_SESSION_BYTES 16

enum wire_role { WIRE_ROLE_SOURCE = 1, WIRE_ROLE_DESTINATION = 2 };

#define WIRE_HELLO_CHECK 0x0001u /* the source only asks whether its machine would be accepted */
#define WIRE_HELLO_QUERY 0x0002u /* the source only asks who owns the guest of this session */

#define WIRE_MAX_STREAMS  16
#define WIRE_FEATURE_ZSTD 0x1u /* takes PAGES with this codec */
#define WIRE_FEATURE_LZ4  0x2u

struct wire_hello {
    uint16_t version_min, version_max;
    uint16_t role;
    uint16_t flags;
    uint64_t features; /* what the sender can do: WIRE_FEATURE_* */
    uint8_t session[WIRE_SESSION_BYTES];
    uint16_t stream_index, stream_count;
    uint32_t page_bytes;
};

void wire_put_hello(uint8_t *out, const struct wire_hello *hello);
/* Magic, checksum, role; not the versions, so that the caller can answer before it refuses. */
int wire_get_hello(const uint8_t *in, uint16_t expected_role, struct wire_hello *hello,
                   struct error *err);
/* The highest version both ends speak; page size and stream numbers must make sense, too. */
int wire_choose_version(const struct wire_hello *peer, uint16_t *version, struct error *err);

/* ---- Records: a fixed header, metadata, payload. */
#define WIRE_HEADER_BYTES      64
#define WIRE_RUN_BYTES         16
#define WIRE_MAX_RUNS          1000
#define WIRE_MAX_META_BYTES    (WIRE_MAX_RUNS * WIRE_RUN_BYTES)
#define WIRE_MAX_PAGES_BYTES   (64u * 1024 * 1024)
#define WIRE_MAX_MACHINE_BYTES (256u * 1024)
#define WIRE_MAX_STATE_BYTES   (16u * 1024 * 1024)
#define WIRE_MAX_REASON_BYTES  480

enum wire_type {
    /* source -> destination */
    WIRE_MACHINE = 1, /* payload: machine tree */
    WIRE_EXTENTS = 2, /* metadata: runs of kind WIRE_KIND_POPULATED */
    WIRE_PAGES = 3,   /* metadata: runs; payload: the pages of the data runs in order */
    WIRE_SYNC = 4,    /* this stream's part of the round is complete */
    WIRE_STATE = 5,   /* payload: state tree */
    WIRE_COMMIT = 6,  /* the guest is the destination's */
    /* destination -> source */
    WIRE_ACCEPT = 32,  /* the machine can be built (check), or is built */
    WIRE_SYNCED = 33,  /* everything of the round is in guest RAM */
    WIRE_READY = 34,   /* state loaded; nothing fallible is left */
    WIRE_RUNNING = 35, /* metadata: CLOCK_MONOTONIC ns of the resume */
    WIRE_ANSWER = 36,  /* to a HELLO with QUERY; metadata: enum wire_answer */
    /* both */
    WIRE_ERROR = 64, /* metadata: one line of UTF-8; the sender has given up */
};

/* Of the payload of PAGES. */
enum wire_codec { WIRE_CODEC_NONE = 0, WIRE_CODEC_ZSTD = 1, WIRE_CODEC_LZ4 = 2 };
/* With a codec a record carries at most this: pages before compression, and payload. */
#define WIRE_MAX_PACKED_PAGES_BYTES (512u * 1024)
#define WIRE_MAX_PACKED_BYTES       WIRE_MAX_PACKED_PAGES_BYTES

/* What became of a session at the destination; the first two are irrevocable. */
enum wire_answer { WIRE_ANSWER_RUNNING = 1, WIRE_ANSWER_DISCARDED = 2, WIRE_ANSWER_UNKNOWN = 3 };

#define WIRE_FLAG_PAYLOAD_HASH 0x0001u /* payload_hash is valid */
#define WIRE_FLAG_LAST         0x0002u /* SYNC: no further round */
#define WIRE_FLAG_RUN          0x0004u /* COMMIT: the guest was running, let it run */

struct wire_header {
    uint16_t type;
    uint16_t flags;
    uint32_t round;
    uint32_t codec;    /* enum wire_codec; only PAGES have one */
    uint64_t sequence; /* counts records per stream and direction, from 0 */
    uint32_t meta_bytes;
    uint64_t payload_bytes;
    uint64_t payload_hash; /* XXH3-64, with WIRE_FLAG_PAYLOAD_HASH */
};

/* Encodes the header; its checksum covers the metadata too. */
void wire_put_header(uint8_t *out, const struct wire_header *header, const uint8_t *meta);

/* Decodes and checks all that the header alone can tell: magic, known type, caps of both lengths.
 * After it, meta_bytes and payload_bytes are safe to allocate. */
int wire_get_header(const uint8_t *in, struct wire_header *header, struct error *err);

/* The checksum over the header's bytes and the metadata that followed. */
int wire_check_meta(const uint8_t *header_bytes, const uint8_t *meta, uint32_t meta_bytes,
                    struct error *err);

uint64_t wire_hash(const void *bytes, size_t length);

/* A record's name for messages. */
const char *wire_type_name(uint16_t type);

/* ---- Runs of pages, the metadata of EXTENTS and PAGES. */
enum wire_kind { WIRE_KIND_DATA = 1, WIRE_KIND_ZERO = 2, WIRE_KIND_POPULATED = 3 };

struct wire_run {
    uint64_t gpa;
    uint32_t npages;
    uint32_t kind;
};

/* A run that was found to lie within one region of the layout. */
struct wire_placed_run {
    unsigned region;
    uint64_t first_page; /* within the region */
    uint64_t npages;
    uint32_t kind;
};

void wire_put_run(uint8_t *out, const struct wire_run *run);
int wire_get_run(const uint8_t *in, const struct migrate_layout *layout,
                 struct wire_placed_run *run, struct error *err);

void wire_put_u64(uint8_t *out, uint64_t value);
uint64_t wire_get_u64(const uint8_t *in);

#endif
