/* SPDX-License-Identifier: MIT
 *
 * A live snapshot: rounds into a file while the guest runs, a short pause for the last one and the
 * state, then the guest goes on here. It never changes hands. */
#ifndef MIGRATE_SNAPSHOT_SAVE_H
#define MIGRATE_SNAPSHOT_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/endpoint.h"
#include "migrate/precopy.h"
#include "migrate/progress.h"
#include "vmm/base/error.h"

struct snapshot_options {
    struct precopy_options copy; /* check_only has no meaning here */
    bool stop;                   /* the guest stays paused after it was saved */
    int cancel_fd;               /* readable: give up; -1: none */
};

/* Saves the guest to `path` in the calling thread. PRECOPY_COMPLETED: the file is whole and on
 * disk; whatever had its name is replaced. PRECOPY_FAILED and PRECOPY_CANCELLED: the guest goes on
 * as before and a file of that name is untouched (only a failed fsync of the directory comes after
 * the rename); err gets one line. Never another outcome. Before the checksums and the disk are
 * waited for, the guest runs again and logging is off. */
enum precopy_outcome snapshot_save_run(const struct migrate_source *source, const char *path,
                                       const struct snapshot_options *options,
                                       struct progress *progress, struct error *err);

#endif
