/* SPDX-License-Identifier: MIT
 *
 * A snapshot file as it is read: hostile until each part's checksum was found right. */
#ifndef MIGRATE_SNAPSHOT_READ_H
#define MIGRATE_SNAPSHOT_READ_H

#include <stddef.h>
#include <stdint.h>

#include "migrate/snapshot_format.h"
#include "vmm/base/error.h"

enum snapshot_record { SNAPSHOT_MACHINE, SNAPSHOT_STATE, SNAPSHOT_RECORDS };

struct snapshot_reader {
    const char *path; /* borrowed */
    int fd;
    uint64_t allocated_bytes; /* on disk */
    struct snapshot_header header;
    uint64_t record_offset[SNAPSHOT_RECORDS]; /* of the record's header */
    void *payload[SNAPSHOT_RECORDS];
    size_t payload_bytes[SNAPSHOT_RECORDS];
};

/* Opens the file, checks its header and its length, and reads and checks its records. Allocates at
 * most what wire.h allows for the payloads. -EPROTO and -EIO lines name the offset. */
int snapshot_reader_open(struct snapshot_reader *reader, const char *path, struct error *err);
/* Also after a failed open. */
void snapshot_reader_close(struct snapshot_reader *reader);

/* Gets every granule's entry, in order; nonzero ends the walk. */
typedef int snapshot_entry_visitor(void *opaque, unsigned region, uint64_t granule,
                                   const struct snapshot_entry *entry, struct error *err);

/* Verifies the page map's checksum, then walks it; in constant memory, however long it is. */
int snapshot_reader_walk(const struct snapshot_reader *reader, snapshot_entry_visitor *visit,
                         void *opaque, struct error *err);

/* Reads and checks one granule's data pages to their places from `to` on. Any thread. */
int snapshot_reader_granule(const struct snapshot_reader *reader, unsigned region, uint64_t granule,
                            const struct snapshot_entry *entry, uint8_t *to, struct error *err);

/* Reads a granule's data pages from `offset` of the file on; *hash as in struct snapshot_entry. */
int snapshot_read_granule(int fd, const char *path, uint64_t offset, const uint64_t *data,
                          uint8_t *to, uint64_t *hash, struct error *err);

#endif
