/* SPDX-License-Identifier: MIT
 *
 * A fake guest and the file that it is saved to, in a directory of its own. */
#ifndef TESTS_UNIT_SNAPSHOT_FIXTURE_H
#define TESTS_UNIT_SNAPSHOT_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/snapshot_load.h"
#include "migrate/snapshot_save.h"
#include "tests/unit/fake_guest.h"

extern const uint64_t fixture_sizes[FAKE_REGIONS];

struct fixture {
    char directory[64];
    char path[96];
    struct fake_guest guest;
    struct progress progress;
    struct snapshot_options options;
    struct error err;
};

void fixture_init(struct fixture *f);
/* Nothing but the file itself may be left in its directory. */
void fixture_free(struct fixture *f);
unsigned fixture_files_in(const char *directory);

/* Saves the guest, and looks whether that left it as it was. */
enum precopy_outcome fixture_save(struct fixture *f);

/* Restores into a fake guest, which it makes; the caller frees it. */
enum receive_outcome fixture_restore(const char *path, bool paused, struct fake_guest *into,
                                     struct error *err);

#endif
