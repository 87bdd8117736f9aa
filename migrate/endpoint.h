/* SPDX-License-Identifier: MIT
 *
 * The two ends of a migration as the engine sees them. Nothing here knows KVM: a binding implements
 * these operations for a VMM, a fake implements them for the tests.
 *
 * All operations return 0 or -errno with a line in err, and are called from the engine's thread. */
#ifndef MIGRATE_ENDPOINT_H
#define MIGRATE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define MIGRATE_PAGE_BYTES  4096u
#define MIGRATE_MAX_REGIONS 8

/* One contiguous range of guest RAM. */
struct migrate_region {
    uint64_t gpa; /* page-aligned */
    uint64_t npages;
    uint8_t *hva; /* borrowed until the migration ends */
    /* All of it is this file's too, from offset 0 on, as read(2), write(2) and splice(2) see it.
     * What goes through the file needs no mapping of the pages, and no faults to make them. */
    bool has_file;
    int file; /* borrowed as well */
};

struct migrate_layout {
    struct migrate_region region[MIGRATE_MAX_REGIONS];
    unsigned nregions;
};

/* Whether all RAM is in files. */
static inline bool migrate_layout_in_files(const struct migrate_layout *layout)
{
    for (unsigned i = 0; i < layout->nregions; i++) {
        if (!layout->region[i].has_file)
            return false;
    }
    return true;
}

/* A part of one region. first_page is a multiple of 64; npages too, unless the chunk ends the
 * region. */
struct migrate_chunk {
    unsigned region;
    uint64_t first_page;
    uint64_t npages;
};

struct migrate_source_ops {
    /* The machine tree and the RAM layout; both borrowed until the migration ends. */
    int (*describe)(void *opaque, const void **tree, size_t *tree_bytes,
                    struct migrate_layout *layout, struct error *err);

    /* The pages of a chunk that hold something, as bits; a hint for the destination. */
    int (*populated)(void *opaque, const struct migrate_chunk *chunk, uint64_t *words,
                     struct error *err);

    /* Dirty logging on; everything is pending. */
    int (*log_start)(void *opaque, struct error *err);

    /* Fetches the log. *pending_pages is what claims would yield now. -ESHUTDOWN where the guest
     * has ended. */
    int (*sync)(void *opaque, uint64_t *pending_pages, struct error *err);

    /* The one way to get pages. The chunk's dirty pages, VMM-side writes merged, re-protected, and
     * only then classified: `data` gets pages to send, `zero` pages that read as zero. In the first
     * round pages that were never touched are in neither; later they are sent as what they read as.
     * Page contents may be read only after this returned, and only those of pages it gave. */
    int (*claim)(void *opaque, const struct migrate_chunk *chunk, bool first_round, uint64_t *data,
                 uint64_t *zero, struct error *err);

    /* Takes percent of the time, 0 to 99, from the vCPUs; 0: full speed again. Called between
     * rounds, and with 0 before the guest is paused for the last time and on every other way out.
     */
    int (*throttle)(void *opaque, unsigned percent, struct error *err);

    /* Asked when the engine was interrupted: -ESHUTDOWN with a line where the guest has ended, else
     * 0. */
    int (*alive)(void *opaque, struct error *err);

    /* The guest stops; *was_running says whether it ran. `last`: it is about to be handed over, and
     * only a failure resumes it here; else it is held for a moment. -ESHUTDOWN where it has ended.
     */
    int (*pause)(void *opaque, bool last, bool *was_running, struct error *err);

    /* State of the paused guest but RAM; the engine frees *state with free(). Whatever it writes to
     * RAM is in the next sync. */
    int (*save)(void *opaque, void **state, size_t *state_bytes, struct error *err);

    /* Ends a pause: the guest is free again here, and runs on where `run`. */
    int (*resume)(void *opaque, bool run, struct error *err);

    /* The guest runs elsewhere: it must never run here again. */
    void (*moved)(void *opaque);

    /* Logging off; called on every exit path after log_start succeeded. */
    void (*log_stop)(void *opaque);
};

struct migrate_source {
    const struct migrate_source_ops *ops;
    void *opaque;
};

struct migrate_sink_ops {
    /* Can this host honour the tree? Creates nothing. */
    int (*check)(void *opaque, const void *tree, size_t tree_bytes, struct error *err);

    /* Builds the machine with empty RAM, everything that can be prepared included. */
    int (*create)(void *opaque, const void *tree, size_t tree_bytes, struct migrate_layout *layout,
                  struct error *err);

    /* Makes pages present ahead of their contents. Called from threads of its own, while pages
     * arrive. */
    int (*populate)(void *opaque, const struct migrate_chunk *chunk, struct error *err);

    /* Loads the state and does everything fallible: after it, run() cannot fail. */
    int (*load)(void *opaque, const void *state, size_t state_bytes, struct error *err);

    /* The guest is owned here from now on; it runs, or stays paused as it was at the source. */
    void (*run)(void *opaque, bool running);

    /* Frees what create() made. Called for every failure after create() and before run(), and after
     * a mere check. */
    void (*discard)(void *opaque);
};

struct migrate_sink {
    const struct migrate_sink_ops *ops;
    void *opaque;
};

#endif
