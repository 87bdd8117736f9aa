/* SPDX-License-Identifier: MIT */
#include "migrate/wire.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "vmm/base/size.h"

static const uint8_t hello_magic[8] = {'P', 'A', 'G', 'E', 'F', 'E', 'R', 'R'};
static const uint8_t record_magic[4] = {'P', 'R', 'E', 'C'};

#define HELLO_HASH_AT  56
#define HEADER_HASH_AT 56

static void put_u16(uint8_t *out, uint16_t value)
{
    value = htole16(value);
    memcpy(out, &value, sizeof(value));
}

static void put_u32(uint8_t *out, uint32_t value)
{
    value = htole32(value);
    memcpy(out, &value, sizeof(value));
}

void wire_put_u64(uint8_t *out, uint64_t value)
{
    value = htole64(value);
    memcpy(out, &value, sizeof(value));
}

static uint16_t get_u16(const uint8_t *in)
{
    uint16_t value;

    memcpy(&value, in, sizeof(value));
    return le16toh(value);
}

static uint32_t get_u32(const uint8_t *in)
{
    uint32_t value;

    memcpy(&value, in, sizeof(value));
    return le32toh(value);
}

uint64_t wire_get_u64(const uint8_t *in)
{
    uint64_t value;

    memcpy(&value, in, sizeof(value));
    return le64toh(value);
}

uint64_t wire_hash(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}

/* XXH3-64 of the header up to its hash field, then the metadata: as one message, in two parts. */
static uint64_t header_hash(const uint8_t *header, const uint8_t *meta, uint32_t meta_bytes)
{
    uint64_t seed = XXH3_64bits(header, HEADER_HASH_AT);

    return XXH3_64bits_withSeed(meta_bytes ? meta : header, meta_bytes, seed);
}

/* ---- HELLO */

void wire_put_hello(uint8_t *out, const struct wire_hello *hello)
{
    memset(out, 0, WIRE_HELLO_BYTES);
    memcpy(out, hello_magic, sizeof(hello_magic));
    put_u16(out + 8, hello->version_min);
    put_u16(out + 10, hello->version_max);
    put_u16(out + 12, hello->role);
    put_u16(out + 14, hello->flags);
    wire_put_u64(out + 16, hello->features);
    memcpy(out + 24, hello->session, WIRE_SESSION_BYTES);
    put_u16(out + 40, hello->stream_index);
    put_u16(out + 42, hello->stream_count);
    put_u32(out + 44, hello->page_bytes);
    wire_put_u64(out + HELLO_HASH_AT, wire_hash(out, HELLO_HASH_AT));
}

int wire_get_hello(const uint8_t *in, uint16_t expected_role, struct wire_hello *hello,
                   struct error *err)
{
    if (memcmp(in, hello_magic, sizeof(hello_magic)) != 0)
        return error_set(err, EPROTO, "the peer does not speak pageferry's protocol (wrong magic)");
    if (wire_get_u64(in + HELLO_HASH_AT) != wire_hash(in, HELLO_HASH_AT))
        return error_set(err, EPROTO, "the peer's HELLO is damaged (wrong checksum)");
    hello->version_min = get_u16(in + 8);
    hello->version_max = get_u16(in + 10);
    hello->role = get_u16(in + 12);
    hello->flags = get_u16(in + 14);
    hello->features = wire_get_u64(in + 16);
    memcpy(hello->session, in + 24, WIRE_SESSION_BYTES);
    hello->stream_index = get_u16(in + 40);
    hello->stream_count = get_u16(in + 42);
    hello->page_bytes = get_u32(in + 44);
    if (hello->role != expected_role)
        return error_set(err, EPROTO, "the peer is a %s too: two of a kind cannot migrate",
                         hello->role == WIRE_ROLE_SOURCE ? "source" : "destination");
    return 0;
}

int wire_choose_version(const struct wire_hello *peer, uint16_t *version, struct error *err)
{
    uint16_t highest =
        peer->version_max < WIRE_VERSION_MAX ? peer->version_max : (uint16_t)WIRE_VERSION_MAX;

    if (highest < WIRE_VERSION_MIN || highest < peer->version_min)
        return error_set(err, EPROTONOSUPPORT,
                         "no common wire version: this end speaks %d to %d, the peer %u to %u; "
                         "upgrade the older end",
                         WIRE_VERSION_MIN, WIRE_VERSION_MAX, (unsigned)peer->version_min,
                         (unsigned)peer->version_max);
    if (peer->page_bytes != MIGRATE_PAGE_BYTES)
        return error_set(err, EPROTO, "the peer's page size is %" PRIu32 ", not %u",
                         peer->page_bytes, MIGRATE_PAGE_BYTES);
    if (peer->stream_count < 1 || peer->stream_count > WIRE_MAX_STREAMS ||
        peer->stream_index >= peer->stream_count)
        return error_set(err, EPROTO, "the peer offers stream %u of %u; there can be %u",
                         (unsigned)peer->stream_index, (unsigned)peer->stream_count,
                         WIRE_MAX_STREAMS);
    *version = highest;
    return 0;
}

/* ---- Records */

struct type_rule {
    uint16_t type;
    const char *name;
    uint32_t max_meta_bytes;
    uint32_t max_payload_bytes;
};

static const struct type_rule type_rules[] = {
    {WIRE_MACHINE, "MACHINE", 0, WIRE_MAX_MACHINE_BYTES},
    {WIRE_EXTENTS, "EXTENTS", WIRE_MAX_META_BYTES, 0},
    {WIRE_PAGES, "PAGES", WIRE_MAX_META_BYTES, WIRE_MAX_PAGES_BYTES},
    {WIRE_SYNC, "SYNC", 0, 0},
    {WIRE_STATE, "STATE", 0, WIRE_MAX_STATE_BYTES},
    {WIRE_COMMIT, "COMMIT", 0, 0},
    {WIRE_ACCEPT, "ACCEPT", 0, 0},
    {WIRE_SYNCED, "SYNCED", 0, 0},
    {WIRE_READY, "READY", 0, 0},
    {WIRE_RUNNING, "RUNNING", 8, 0},
    {WIRE_ANSWER, "ANSWER", 8, 0},
    {WIRE_ERROR, "ERROR", WIRE_MAX_REASON_BYTES, 0},
};

static const struct type_rule *find_rule(uint16_t type)
{
    for (size_t i = 0; i < sizeof(type_rules) / sizeof(type_rules[0]); i++) {
        if (type_rules[i].type == type)
            return &type_rules[i];
    }
    return NULL;
}

const char *wire_type_name(uint16_t type)
{
    const struct type_rule *rule = find_rule(type);

    return rule ? rule->name : "unknown";
}

void wire_put_header(uint8_t *out, const struct wire_header *header, const uint8_t *meta)
{
    memset(out, 0, WIRE_HEADER_BYTES);
    memcpy(out, record_magic, sizeof(record_magic));
    put_u16(out + 4, header->type);
    put_u16(out + 6, header->flags);
    put_u32(out + 8, header->round);
    put_u32(out + 12, header->codec);
    wire_put_u64(out + 16, header->sequence);
    put_u32(out + 24, header->meta_bytes);
    wire_put_u64(out + 32, header->payload_bytes);
    wire_put_u64(out + 40, header->payload_hash);
    wire_put_u64(out + HEADER_HASH_AT, header_hash(out, meta, header->meta_bytes));
}

static int check_codec(const struct wire_header *header, const char *name, struct error *err)
{
    if (header->codec == WIRE_CODEC_NONE)
        return 0;
    if (header->type != WIRE_PAGES || header->codec > WIRE_CODEC_LZ4)
        return error_set(err, EPROTO, "%s with codec %" PRIu32 ", which version 1 does not have",
                         name, header->codec);
    if (header->payload_bytes == 0 || header->payload_bytes > WIRE_MAX_PACKED_BYTES)
        return error_set(err, EPROTO,
                         "%s with %" PRIu64 " bytes of compressed payload (at most %u)", name,
                         header->payload_bytes, WIRE_MAX_PACKED_BYTES);
    if (!(header->flags & WIRE_FLAG_PAYLOAD_HASH))
        return error_set(err, EPROTO, "%s with a compressed payload that is not hashed", name);
    return 0;
}

int wire_get_header(const uint8_t *in, struct wire_header *header, struct error *err)
{
    const struct type_rule *rule;

    if (memcmp(in, record_magic, sizeof(record_magic)) != 0)
        return error_set(err, EPROTO, "no record where one must begin (wrong magic)");
    header->type = get_u16(in + 4);
    header->flags = get_u16(in + 6);
    header->round = get_u32(in + 8);
    header->codec = get_u32(in + 12);
    header->sequence = wire_get_u64(in + 16);
    header->meta_bytes = get_u32(in + 24);
    header->payload_bytes = wire_get_u64(in + 32);
    header->payload_hash = wire_get_u64(in + 40);
    rule = find_rule(header->type);
    if (!rule)
        return error_set(err, EPROTO, "unknown record type %u", (unsigned)header->type);
    if (header->meta_bytes > rule->max_meta_bytes)
        return error_set(err, EPROTO, "%s with %" PRIu32 " bytes of metadata (at most %" PRIu32 ")",
                         rule->name, header->meta_bytes, rule->max_meta_bytes);
    if (header->payload_bytes > rule->max_payload_bytes)
        return error_set(err, EPROTO, "%s with %" PRIu64 " bytes of payload (at most %" PRIu32 ")",
                         rule->name, header->payload_bytes, rule->max_payload_bytes);
    return check_codec(header, rule->name, err);
}

int wire_check_meta(const uint8_t *header_bytes, const uint8_t *meta, uint32_t meta_bytes,
                    struct error *err)
{
    if (wire_get_u64(header_bytes + HEADER_HASH_AT) != header_hash(header_bytes, meta, meta_bytes))
        return error_set(err, EPROTO, "%s is damaged (wrong checksum)",
                         wire_type_name(get_u16(header_bytes + 4)));
    return 0;
}

/* ---- Runs */

void wire_put_run(uint8_t *out, const struct wire_run *run)
{
    wire_put_u64(out, run->gpa);
    put_u32(out + 8, run->npages);
    put_u32(out + 12, run->kind);
}

int wire_get_run(const uint8_t *in, const struct migrate_layout *layout,
                 struct wire_placed_run *run, struct error *err)
{
    uint64_t gpa = wire_get_u64(in);
    uint32_t npages = get_u32(in + 8);

    run->kind = get_u32(in + 12);
    run->npages = npages;
    if (run->kind < WIRE_KIND_DATA || run->kind > WIRE_KIND_POPULATED)
        return error_set(err, EPROTO, "a run of unknown kind %" PRIu32, run->kind);
    if (npages == 0 || gpa % MIGRATE_PAGE_BYTES)
        return error_set(err, EPROTO, "a run of %" PRIu32 " pages at 0x%" PRIx64, npages, gpa);
    for (unsigned i = 0; i < layout->nregions; i++) {
        const struct migrate_region *region = &layout->region[i];

        if (gpa < region->gpa)
            continue;
        run->first_page = (gpa - region->gpa) / MIGRATE_PAGE_BYTES;
        if (size_range_within(run->first_page, npages, region->npages)) {
            run->region = i;
            return 0;
        }
    }
    return error_set(err, EPROTO, "a run of %" PRIu32 " pages at 0x%" PRIx64 " is not guest RAM",
                     npages, gpa);
}
