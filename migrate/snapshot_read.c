/* SPDX-License-Identifier: MIT */
#include "migrate/snapshot_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "migrate/wire.h"
#include "vmm/base/bitmap.h"

#define WALK_ENTRIES 256u

static int read_at(int fd, const char *path, void *to, size_t length, uint64_t offset,
                   struct error *err)
{
    uint8_t *into = to;

    while (length) {
        ssize_t n = pread(fd, into, length, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, errno, "%.300s: reading at byte %" PRIu64 ": %s", path, offset,
                             strerror(errno));
        if (n == 0)
            return error_set(err, EPROTO, "%.300s: it ends at byte %" PRIu64 ", within a part",
                             path, offset);
        into += n;
        length -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* Says where, in front of what. */
static int damaged(const char *path, uint64_t offset, int rc, struct error *err)
{
    if (rc)
        error_prefix(err, "%.300s: at byte %" PRIu64, path, offset);
    return rc;
}

static int read_header(struct snapshot_reader *reader, uint64_t size, struct error *err)
{
    uint8_t bytes[SNAPSHOT_HEADER_BYTES];
    int rc;

    if (size < sizeof(bytes))
        return error_set(err, EPROTO,
                         "%.300s: it ends at byte %" PRIu64 ": too short for a snapshot",
                         reader->path, size);
    rc = read_at(reader->fd, reader->path, bytes, sizeof(bytes), 0, err);
    if (!rc)
        rc = damaged(reader->path, 0, snapshot_get_header(bytes, &reader->header, err), err);
    if (!rc && size != reader->header.file_bytes)
        rc = error_set(err, EPROTO,
                       "%.300s: it ends at byte %" PRIu64 ", but a whole one has %" PRIu64,
                       reader->path, size, reader->header.file_bytes);
    return rc;
}

/* One record; *offset moves past it. */
static int read_record(struct snapshot_reader *reader, enum snapshot_record which, uint64_t *offset,
                       struct error *err)
{
    static const uint16_t types[SNAPSHOT_RECORDS] = {WIRE_MACHINE, WIRE_STATE};
    uint64_t left = reader->header.file_bytes - *offset;
    struct wire_header header;
    uint8_t bytes[WIRE_HEADER_BYTES];
    int rc;

    if (left < sizeof(bytes))
        return damaged(reader->path, *offset, error_set(err, EPROTO, "no room for a record"), err);
    rc = read_at(reader->fd, reader->path, bytes, sizeof(bytes), *offset, err);
    if (rc)
        return rc;
    rc = wire_get_header(bytes, &header, err);
    if (!rc && (header.type != types[which] || header.sequence != (uint64_t)which ||
                header.flags != WIRE_FLAG_PAYLOAD_HASH || header.codec || header.meta_bytes))
        rc = error_set(err, EPROTO, "%s where %s must be", wire_type_name(header.type),
                       wire_type_name(types[which]));
    if (!rc)
        rc = wire_check_meta(bytes, NULL, 0, err);
    if (!rc && header.payload_bytes > left - sizeof(bytes))
        rc = error_set(err, EPROTO, "%s is longer than the file", wire_type_name(header.type));
    if (rc)
        return damaged(reader->path, *offset, rc, err);
    reader->record_offset[which] = *offset;
    *offset += sizeof(bytes);
    reader->payload_bytes[which] = (size_t)header.payload_bytes;
    reader->payload[which] = malloc(reader->payload_bytes[which] + 1);
    if (!reader->payload[which])
        return error_set(err, ENOMEM, "no memory for the snapshot's records");
    rc = read_at(reader->fd, reader->path, reader->payload[which], reader->payload_bytes[which],
                 *offset, err);
    if (!rc &&
        wire_hash(reader->payload[which], reader->payload_bytes[which]) != header.payload_hash)
        rc = damaged(reader->path, *offset,
                     error_set(err, EPROTO, "the payload of %s is damaged (wrong checksum)",
                               wire_type_name(header.type)),
                     err);
    *offset += header.payload_bytes;
    return rc;
}

int snapshot_reader_open(struct snapshot_reader *reader, const char *path, struct error *err)
{
    struct stat info;
    uint64_t offset;
    int rc;

    memset(reader, 0, sizeof(*reader));
    reader->path = path;
    /* O_NONBLOCK: a FIFO is refused, not waited for. */
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader->fd < 0 || fstat(reader->fd, &info))
        return error_set(err, errno, "%.300s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return error_set(err, EPROTO, "%.300s: no regular file, so no snapshot", path);
    reader->allocated_bytes = (uint64_t)info.st_blocks * 512;
    rc = read_header(reader, (uint64_t)info.st_size, err);
    offset = reader->header.records_offset;
    for (unsigned i = 0; !rc && i < SNAPSHOT_RECORDS; i++)
        rc = read_record(reader, (enum snapshot_record)i, &offset, err);
    if (!rc && offset != reader->header.file_bytes)
        rc = damaged(path, offset, error_set(err, EPROTO, "bytes after the last record"), err);
    return rc;
}

void snapshot_reader_close(struct snapshot_reader *reader)
{
    if (reader->fd >= 0)
        (void)close(reader->fd);
    reader->fd = -1;
    for (unsigned i = 0; i < SNAPSHOT_RECORDS; i++) {
        free(reader->payload[i]);
        reader->payload[i] = NULL;
    }
}

/* Gives the visitor one batch of entries. */
static int visit_batch(const struct snapshot_reader *reader, unsigned region, uint64_t first,
                       const uint8_t *bytes, uint64_t count, uint64_t offset,
                       snapshot_entry_visitor *visit, void *opaque, struct error *err)
{
    uint64_t npages = reader->header.region[region].npages;

    for (uint64_t i = 0; i < count; i++) {
        struct snapshot_entry entry;
        uint64_t granule = first + i;
        int rc = snapshot_get_entry(bytes + i * SNAPSHOT_ENTRY_BYTES,
                                    npages - granule * SNAPSHOT_GRANULE_PAGES, &entry, err);

        if (rc)
            return damaged(reader->path, offset + i * SNAPSHOT_ENTRY_BYTES, rc, err);
        rc = visit(opaque, region, granule, &entry, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Goes through the map once: hashes it where `state`, else shows it to the visitor. */
static int go_through(const struct snapshot_reader *reader, XXH3_state_t *state,
                      snapshot_entry_visitor *visit, void *opaque, struct error *err)
{
    uint64_t offset = reader->header.map_offset;
    uint8_t bytes[WALK_ENTRIES * SNAPSHOT_ENTRY_BYTES];

    for (unsigned r = 0; r < reader->header.nregions; r++) {
        uint64_t granules = snapshot_region_granules(&reader->header.region[r]);

        for (uint64_t first = 0; first < granules; first += WALK_ENTRIES) {
            uint64_t left = granules - first;
            uint64_t count = left < WALK_ENTRIES ? left : WALK_ENTRIES;
            size_t length = (size_t)count * SNAPSHOT_ENTRY_BYTES;
            int rc = read_at(reader->fd, reader->path, bytes, length, offset, err);

            if (!rc && state)
                (void)XXH3_64bits_update(state, bytes, length);
            else if (!rc)
                rc = visit_batch(reader, r, first, bytes, count, offset, visit, opaque, err);
            if (rc)
                return rc;
            offset += length;
        }
    }
    return 0;
}

static int verify_map(const struct snapshot_reader *reader, struct error *err)
{
    XXH3_state_t *state = XXH3_createState();
    int rc;

    if (!state || XXH3_64bits_reset(state) == XXH_ERROR)
        rc = error_set(err, ENOMEM, "no memory to verify the page map");
    else
        rc = go_through(reader, state, NULL, NULL, err);
    if (!rc && XXH3_64bits_digest(state) != reader->header.map_hash)
        rc = damaged(reader->path, reader->header.map_offset,
                     error_set(err, EPROTO, "the page map is damaged (wrong checksum)"), err);
    (void)XXH3_freeState(state);
    return rc;
}

int snapshot_reader_walk(const struct snapshot_reader *reader, snapshot_entry_visitor *visit,
                         void *opaque, struct error *err)
{
    int rc = verify_map(reader, err);

    return rc ? rc : go_through(reader, NULL, visit, opaque, err);
}

int snapshot_read_granule(int fd, const char *path, uint64_t offset, const uint64_t *data,
                          uint8_t *to, uint64_t *hash, struct error *err)
{
    XXH3_state_t *state;
    struct bitmap_run run;
    uint64_t position = 0;
    int rc = 0;

    *hash = 0;
    if (!bitmap_any(data, SNAPSHOT_GRANULE_PAGES))
        return 0;
    state = XXH3_createState();
    if (!state || XXH3_64bits_reset(state) == XXH_ERROR)
        rc = error_set(err, ENOMEM, "no memory to verify pages");
    while (!rc && bitmap_next_run(data, SNAPSHOT_GRANULE_PAGES, &position, &run)) {
        uint8_t *place = to + run.first * MIGRATE_PAGE_BYTES;
        size_t length = (size_t)(run.count * MIGRATE_PAGE_BYTES);

        rc = read_at(fd, path, place, length, offset + run.first * MIGRATE_PAGE_BYTES, err);
        if (!rc)
            (void)XXH3_64bits_update(state, place, length);
    }
    if (!rc)
        *hash = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    return rc;
}

int snapshot_reader_granule(const struct snapshot_reader *reader, unsigned region, uint64_t granule,
                            const struct snapshot_entry *entry, uint8_t *to, struct error *err)
{
    uint64_t offset = reader->header.region[region].offset + granule * SNAPSHOT_GRANULE_BYTES;
    uint64_t hash;
    int rc = snapshot_read_granule(reader->fd, reader->path, offset, entry->data, to, &hash, err);

    if (!rc && hash != entry->hash)
        rc = damaged(reader->path, offset,
                     error_set(err, EPROTO, "pages are damaged (wrong checksum)"), err);
    return rc;
}
