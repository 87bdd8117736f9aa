/* SPDX-License-Identifier: MIT
 *
 * A guest without KVM: memory that a thread scribbles on, with a dirty bitmap kept the way KVM
 * keeps it. Drives the whole engine through endpoint.h. */
#ifndef TESTS_UNIT_FAKE_GUEST_H
#define TESTS_UNIT_FAKE_GUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/endpoint.h"

#define FAKE_REGIONS 2

enum fake_fault {
    FAKE_FINE,
    FAKE_FAIL_CHECK,
    FAKE_FAIL_CREATE,
    FAKE_FAIL_LOAD,
    FAKE_FAIL_SYNC, /* the guest ended during the copy */
    FAKE_FAIL_PAUSE,
    FAKE_ENDED, /* told only when asked */
};

struct fake_guest {
    struct migrate_layout layout;
    uint64_t *dirty[FAKE_REGIONS];   /* what the "kernel" logged, atomic words */
    uint64_t *pending[FAKE_REGIONS]; /* fetched, not claimed */
    uint64_t *touched[FAKE_REGIONS]; /* pages that hold something */
    enum fake_fault fault;
    pthread_t writer;
    bool writer_started;
    bool running;          /* atomic */
    bool stop;             /* atomic */
    pthread_mutex_t store; /* held for one store and its log entry: what hardware does atomically */
    unsigned seed;
    /* What the engine did, for the tests to look at. */
    bool logging, moved, created, discarded, ran, ran_running;
    unsigned pauses, resumes, syncs;
    unsigned throttle, most_throttle;
    char state[64];
};

/* Regions of these sizes in pages. `content` fills half of the pages with something. */
void fake_guest_init(struct fake_guest *guest, const uint64_t *npages, bool content);
/* The same in files (memfd), which it says. */
void fake_guest_init_in_files(struct fake_guest *guest, const uint64_t *npages, bool content);
void fake_guest_free(struct fake_guest *guest);

/* Starts a thread that writes to random pages while the guest runs. */
void fake_guest_run(struct fake_guest *guest, unsigned seed);

bool fake_guest_equal(const struct fake_guest *a, const struct fake_guest *b);

struct migrate_source fake_guest_source(struct fake_guest *guest);
struct migrate_sink fake_guest_sink(struct fake_guest *guest);

#endif
