/* SPDX-License-Identifier: MIT
 *
 * A guest without vCPUs: RAM and nothing else, so that the engine can be measured without KVM. */
#ifndef TOOLS_BENCH_ENGINE_GUEST_H
#define TOOLS_BENCH_ENGINE_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/endpoint.h"
#include "tools/bench_engine_writer.h"
#include "vmm/memory.h"

struct engine_guest {
    struct memory memory;
    bool exists; /* memory is there */
    uint64_t *pending[MIGRATE_MAX_REGIONS];
    uint64_t bytes;
    enum memory_backing backing;
    uint64_t dirty_rate;  /* pages a second that are stored to while it migrates; 0: none */
    uint64_t dirty_bytes; /* of the first RAM */
    bool dirty_random;    /* not in turn */
    struct engine_writer writer;
    struct memory_extent populated; /* found last */
};

/* Its RAM, of the size and backing that are set, laid out as a machine's. */
int engine_guest_create(struct engine_guest *guest, struct error *err);
/* Stores to `bytes` of it, in blocks of 2 MiB spread evenly; every word is another. */
void engine_guest_touch(struct engine_guest *guest, uint64_t bytes);
void engine_guest_free(struct engine_guest *guest);

/* Bytes of RAM that are there; -errno. */
int engine_guest_present(const struct engine_guest *guest, uint64_t *bytes, struct error *err);
/* Over what engine_guest_touch() stored to: equal guests have equal sums. */
uint64_t engine_guest_sum(const struct engine_guest *guest, uint64_t touched_bytes);

struct migrate_source engine_guest_source(struct engine_guest *guest);
struct migrate_sink engine_guest_sink(struct engine_guest *guest);

#endif
