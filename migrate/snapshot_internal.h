/* SPDX-License-Identifier: MIT
 *
 * One snapshot being saved, as its parts share it. Internal to the snapshot's engine. */
#ifndef MIGRATE_SNAPSHOT_INTERNAL_H
#define MIGRATE_SNAPSHOT_INTERNAL_H

#include "migrate/converge.h"
#include "migrate/pace.h"
#include "migrate/snapshot_file.h"
#include "migrate/snapshot_pages.h"
#include "migrate/snapshot_save.h"

struct saver {
    const struct migrate_source *source;
    const struct snapshot_options *options;
    struct progress *progress;
    struct snapshot_file file;
    struct snapshot_pages pages;
    const void *tree; /* borrowed */
    size_t tree_bytes;
    void *state;
    size_t state_bytes;
    struct pace pace;
    uint64_t batch_pages;  /* written between two looks at cancel_fd */
    uint64_t *data, *zero; /* one chunk's claims */
    struct converge_policy policy;
    struct converge_history history;
    uint64_t rounds_begin_ns;
    uint32_t round;
    uint64_t bandwidth;
    uint64_t fixed_ns; /* pausing and saving the state */
    bool logging;
    bool paused;      /* by us */
    bool was_running; /* valid once paused */
};

int saver_copy_init(struct saver *s, struct error *err);
void saver_copy_free(struct saver *s);

/* Claims everything that is dirty and puts it into the file. */
int saver_copy_round(struct saver *s, struct error *err);

/* -ECANCELED where somebody asked for it. `opaque` is a struct saver. */
int saver_look(void *opaque, struct error *err);

#endif
