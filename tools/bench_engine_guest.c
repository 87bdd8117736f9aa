/* SPDX-License-Identifier: MIT */
#include "tools/bench_engine_guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tools/bench_child.h"
#include "tools/binding.h"
#include "vmm/base/bitmap.h"

#define BLOCK_BYTES (2ull << 20)

static const char machine_tree[] = "RAM of a bench";

int engine_guest_create(struct engine_guest *guest, struct error *err)
{
    struct memory_region ranges[2] = {{.gpa = 0}, {.gpa = MEMORY_GAP_END}};
    uint64_t low = guest->bytes < MEMORY_GAP_START ? guest->bytes : MEMORY_GAP_START;
    int rc;

    ranges[0].npages = low / MEMORY_PAGE_BYTES;
    ranges[1].npages = (guest->bytes - low) / MEMORY_PAGE_BYTES;
    rc = memory_create(&guest->memory, ranges, ranges[1].npages ? 2 : 1, guest->backing, err);
    guest->exists = rc == 0;
    return rc;
}

void engine_guest_free(struct engine_guest *guest)
{
    engine_writer_free(&guest->writer);
    for (unsigned i = 0; i < MIGRATE_MAX_REGIONS; i++) {
        free(guest->pending[i]);
        guest->pending[i] = NULL;
    }
    if (guest->exists)
        memory_destroy(&guest->memory);
    guest->exists = false;
}

/* Block `i` of `n`. All but the gap below 4 GiB is RAM, and blocks are aligned: it lies in one
 * region. */
static uint8_t *block(const struct engine_guest *guest, uint64_t i, uint64_t n)
{
    uint64_t offset = guest->bytes / BLOCK_BYTES * i / n * BLOCK_BYTES;

    if (offset >= MEMORY_GAP_START)
        offset += MEMORY_GAP_END - MEMORY_GAP_START;
    return memory_at(&guest->memory, offset, BLOCK_BYTES);
}

void engine_guest_touch(struct engine_guest *guest, uint64_t bytes)
{
    uint64_t n = bytes / BLOCK_BYTES;

    for (uint64_t i = 0; i < n; i++)
        bench_fill(block(guest, i, n), BLOCK_BYTES, i * BLOCK_BYTES);
}

uint64_t engine_guest_sum(const struct engine_guest *guest, uint64_t touched_bytes)
{
    uint64_t n = touched_bytes / BLOCK_BYTES, sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum = XXH3_64bits_withSeed(block(guest, i, n), BLOCK_BYTES, sum);
    return sum;
}

int engine_guest_present(const struct engine_guest *guest, uint64_t *bytes, struct error *err)
{
    *bytes = 0;
    for (unsigned i = 0; i < guest->memory.nregions; i++) {
        uint64_t npages = guest->memory.region[i].npages;
        uint64_t *words = calloc(bitmap_words(npages), sizeof(uint64_t));
        int rc = words ? memory_populated(&guest->memory, i, 0, npages, words, NULL, err)
                       : error_set(err, ENOMEM, "no memory for a bitmap");

        if (!rc)
            *bytes += bitmap_count(words, npages) * MEMORY_PAGE_BYTES;
        free(words);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- source: everything is dirty once, and again what the writer stores to. */

static int describe(void *opaque, const void **tree, size_t *tree_bytes,
                    struct migrate_layout *layout, struct error *err)
{
    struct engine_guest *guest = opaque;

    (void)err;
    *tree = machine_tree;
    *tree_bytes = sizeof(machine_tree);
    binding_layout(&guest->memory, layout);
    return 0;
}

static int populated(void *opaque, const struct migrate_chunk *chunk, uint64_t *words,
                     struct error *err)
{
    struct engine_guest *guest = opaque;

    return memory_populated(&guest->memory, chunk->region, chunk->first_page, chunk->npages, words,
                            &guest->populated, err);
}

static int log_start(void *opaque, struct error *err)
{
    struct engine_guest *guest = opaque;

    for (unsigned i = 0; i < guest->memory.nregions; i++) {
        uint64_t npages = guest->memory.region[i].npages;

        guest->pending[i] = calloc(bitmap_words(npages), sizeof(uint64_t));
        if (!guest->pending[i])
            return error_set(err, ENOMEM, "no memory for a bitmap");
        bitmap_set_range(guest->pending[i], 0, npages);
    }
    if (!guest->dirty_rate)
        return 0;
    guest->writer.hva = guest->memory.region[0].hva;
    guest->writer.npages = guest->dirty_bytes / MEMORY_PAGE_BYTES;
    guest->writer.rate = guest->dirty_rate;
    guest->writer.random = guest->dirty_random;
    return engine_writer_start(&guest->writer, err);
}

static void log_stop(void *opaque)
{
    (void)opaque;
}

static int sync_log(void *opaque, uint64_t *pending_pages, struct error *err)
{
    struct engine_guest *guest = opaque;

    (void)err;
    if (guest->writer.log)
        engine_writer_collect(&guest->writer, guest->pending[0]);
    *pending_pages = 0;
    for (unsigned i = 0; i < guest->memory.nregions; i++)
        *pending_pages += bitmap_count(guest->pending[i], guest->memory.region[i].npages);
    return 0;
}

/* As a machine's: in round 0 holes are looked up after the clear, and what reads as zero is not
 * sent. */
static int claim(void *opaque, const struct migrate_chunk *chunk, bool first_round, uint64_t *data,
                 uint64_t *zero, struct error *err)
{
    struct engine_guest *guest = opaque;
    uint64_t *pending = guest->pending[chunk->region] + chunk->first_page / BITMAP_WORD_BITS;
    size_t nwords = bitmap_words(chunk->npages);
    int rc = 0;

    memset(zero, 0, nwords * sizeof(*zero));
    if (first_round)
        rc = memory_populated(&guest->memory, chunk->region, chunk->first_page, chunk->npages, data,
                              &guest->populated, err);
    else
        memset(data, 0xff, nwords * sizeof(*data));
    for (size_t w = 0; w < nwords; w++) {
        data[w] &= pending[w];
        pending[w] = 0;
    }
    if (!rc && first_round)
        rc = memory_sort_zeros(&guest->memory, chunk->region, chunk->first_page, chunk->npages,
                               data, zero, err);
    return rc;
}

/* There is no vCPU to slow. */
static int throttle(void *opaque, unsigned percent, struct error *err)
{
    (void)opaque;
    (void)percent;
    (void)err;
    return 0;
}

static int alive(void *opaque, struct error *err)
{
    (void)opaque;
    (void)err;
    return 0;
}

static int pause_guest(void *opaque, bool last, bool *was_running, struct error *err)
{
    struct engine_guest *guest = opaque;

    (void)last;
    (void)err;
    engine_writer_pause(&guest->writer);
    *was_running = true;
    return 0;
}

static int save(void *opaque, void **state, size_t *state_bytes, struct error *err)
{
    (void)opaque;
    *state = calloc(1, sizeof(uint64_t));
    *state_bytes = sizeof(uint64_t);
    return *state ? 0 : error_set(err, ENOMEM, "no memory for the state");
}

static int resume(void *opaque, bool run, struct error *err)
{
    struct engine_guest *guest = opaque;

    (void)err;
    if (run)
        engine_writer_resume(&guest->writer);
    return 0;
}

static void moved(void *opaque)
{
    (void)opaque;
}

struct migrate_source engine_guest_source(struct engine_guest *guest)
{
    static const struct migrate_source_ops ops = {.describe = describe,
                                                  .populated = populated,
                                                  .log_start = log_start,
                                                  .sync = sync_log,
                                                  .claim = claim,
                                                  .throttle = throttle,
                                                  .alive = alive,
                                                  .pause = pause_guest,
                                                  .save = save,
                                                  .resume = resume,
                                                  .moved = moved,
                                                  .log_stop = log_stop};

    return (struct migrate_source){.ops = &ops, .opaque = guest};
}

/* ---- sink */

static int check(void *opaque, const void *tree, size_t tree_bytes, struct error *err)
{
    (void)opaque;
    if (tree_bytes != sizeof(machine_tree) || memcmp(tree, machine_tree, tree_bytes) != 0)
        return error_set(err, EPROTO, "that is no guest of the bench");
    return 0;
}

static int create(void *opaque, const void *tree, size_t tree_bytes, struct migrate_layout *layout,
                  struct error *err)
{
    struct engine_guest *guest = opaque;
    int rc = engine_guest_create(guest, err);

    (void)tree;
    (void)tree_bytes;
    if (!rc)
        binding_layout(&guest->memory, layout);
    return rc;
}

static int populate(void *opaque, const struct migrate_chunk *chunk, struct error *err)
{
    const struct engine_guest *guest = opaque;

    return memory_populate(&guest->memory, chunk->region, chunk->first_page, chunk->npages, err);
}

static int load(void *opaque, const void *state, size_t state_bytes, struct error *err)
{
    (void)opaque;
    (void)state;
    return state_bytes == sizeof(uint64_t) ? 0 : error_set(err, EPROTO, "no state of the bench");
}

static void run_guest(void *opaque, bool running)
{
    (void)opaque;
    (void)running;
}

static void discard(void *opaque)
{
    engine_guest_free(opaque);
}

struct migrate_sink engine_guest_sink(struct engine_guest *guest)
{
    static const struct migrate_sink_ops ops = {.check = check,
                                                .create = create,
                                                .populate = populate,
                                                .load = load,
                                                .run = run_guest,
                                                .discard = discard};

    return (struct migrate_sink){.ops = &ops, .opaque = guest};
}
