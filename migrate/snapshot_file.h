/* SPDX-License-Identifier: MIT
 *
 * A file that is there as a whole or not at all: written without a name, or under a temporary one
 * in the same directory, and put in its place when it is complete and on disk. Internal to the
 * snapshot's engine. */
#ifndef MIGRATE_SNAPSHOT_FILE_H
#define MIGRATE_SNAPSHOT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define SNAPSHOT_NAME_BYTES 40

struct snapshot_file {
    const char *path; /* borrowed */
    const char *base; /* its last part */
    int dir_fd;
    int fd;
    char temporary[SNAPSHOT_NAME_BYTES]; /* empty while the file has no name */
};

/* mode 0600: it holds the guest's memory. -EEXIST where something else than a regular file is in
 * the way. */
int snapshot_file_create(struct snapshot_file *file, const char *path, struct error *err);

/* Writes all of it, or fails with the offset in the line. */
int snapshot_file_write(const struct snapshot_file *file, const void *bytes, size_t length,
                        uint64_t offset, struct error *err);

/* To disk and into its place, where it replaces what was there. */
int snapshot_file_commit(struct snapshot_file *file, struct error *err);

/* Closes it; what was not committed leaves no trace. Safe after a failed create. */
void snapshot_file_close(struct snapshot_file *file);

#endif
