/* SPDX-License-Identifier: MIT
 *
 * The measurements of bench dirty-log: rows within iterations, lanes within rows. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/bench_dirty_lane.h"
#include "tools/bench_progress.h"
#include "vmm/base/bitmap.h"
#include "vmm/dirty_ring.h"

/* The guest's stores without protection: what something else disturbed is not taken. */
#define UNPROTECTED_TRIES 3

/* The pages of a row, as numbers and as bits. */
static int choose_pages(struct bench_dirty *bench, uint64_t dirty, struct error *err)
{
    uint64_t npages = bench->config->npages;

    if (bench_pattern_fill(bench->config->pattern, npages, bench->pages, dirty))
        return error_set(err, ENOMEM, "no memory for a pattern");
    memset(bench->wanted, 0, bitmap_words(npages) * sizeof(uint64_t));
    for (uint64_t i = 0; i < dirty; i++)
        bitmap_set(bench->wanted, bench->pages[i]);
    return 0;
}

static uint64_t full_exits(const struct bench_dirty_lane *lane)
{
    const struct dirty_rings *rings = writer_vm_log(lane->vm)->rings;

    return rings ? dirty_rings_full_exits(rings) : 0;
}

/* A page that was stored to and is not in the log makes every number worthless. */
static int verify(const struct bench_dirty *bench, const struct bench_dirty_lane *lane,
                  struct bench_dirty_row *row, struct error *err)
{
    uint64_t extra = 0;

    for (unsigned slot = 0; slot < bench->config->nslots; slot++) {
        for (size_t i = 0; i < bitmap_words(lane->npages); i++) {
            uint64_t found = lane->words[slot][i];
            uint64_t missing = bench->wanted[i] & ~found;

            if (missing)
                return error_set(err, EIO,
                                 "the log is broken: a store to page %" PRIu64
                                 " of slot %u is not in it; leave this backend out with --backend",
                                 i * BITMAP_WORD_BITS + (unsigned)__builtin_ctzll(missing), slot);
            extra += (unsigned)__builtin_popcountll(found & ~bench->wanted[i]);
        }
    }
    if (extra > row->extra)
        row->extra = extra;
    return 0;
}

static int measure(struct bench_dirty *bench, struct bench_dirty_lane *lane,
                   struct bench_dirty_row *row, bool warm_up, struct error *err)
{
    uint64_t full_before = full_exits(lane);
    uint64_t write_ns = 0;
    int result = 0;

    if (row->running)
        result = writer_vm_hold(lane->vm, false, err);
    if (!result)
        result = bench_dirty_lane_store(bench, lane, &write_ns, err);
    /* With PML, KVM logs the last stores when the vCPU leaves the guest next. */
    if (!result && row->running)
        result = writer_vm_kick(lane->vm, err);
    if (!result)
        result = bench_dirty_pass(lane, bench->config->nslots, &row->last, err);
    if (!result && row->running)
        result = writer_vm_hold(lane->vm, true, err);
    if (!result)
        result = verify(bench, lane, row, err);
    if (result || warm_up)
        return result;
    row->full_exits += full_exits(lane) - full_before;
    row->last.ns[BENCH_WRITE] = write_ns;
    for (unsigned i = 0; i < BENCH_NMETRICS; i++)
        bench_samples_add(&row->metric[i], row->last.ns[i]);
    return 0;
}

/* One row of all lanes; a lane's rows with running vCPUs follow those with stopped ones. */
static int measure_row(struct bench_dirty *bench, unsigned index, unsigned iteration,
                       struct error *err)
{
    const struct bench_dirty_config *config = bench->config;
    uint64_t dirty = config->dirty.value[index];
    int result = choose_pages(bench, dirty, err);

    for (unsigned i = 0; !result && i < bench->nlanes; i++) {
        struct bench_dirty_lane *lane = &bench->lane[(i + iteration) % bench->nlanes];
        char name[BENCH_DIRTY_NAME_BYTES];

        (void)bench_dirty_lane_name(lane, name, sizeof(name));
        bench_progress("%s %u of %u, %" PRIu64 " pages: %s",
                       iteration ? "iteration" : "warming up,", iteration, config->iterations,
                       dirty, name);
        result = bench_dirty_lane_list(bench, lane, bench->pages, dirty, err);
        for (unsigned row = index; !result && row < bench->nrows; row += config->dirty.count)
            result = measure(bench, lane, &lane->row[row], iteration == 0, err);
        if (result)
            error_prefix(err, "%s, %" PRIu64 " pages", name, dirty);
    }
    return result;
}

/* What the same stores cost where nothing is protected. */
static int measure_unprotected(struct bench_dirty *bench, struct bench_dirty_lane *lane,
                               struct error *err)
{
    const struct bench_numbers *dirty = &bench->config->dirty;
    int result = 0;

    for (unsigned i = 0; !result && i < dirty->count; i++) {
        uint64_t least = UINT64_MAX;

        result = choose_pages(bench, dirty->value[i], err);
        if (!result)
            result = bench_dirty_lane_list(bench, lane, bench->pages, dirty->value[i], err);
        for (unsigned j = 0; !result && j < UNPROTECTED_TRIES; j++) {
            uint64_t ns = 0;

            result = bench_dirty_lane_store(bench, lane, &ns, err);
            least = ns < least ? ns : least;
        }
        for (unsigned row = i; row < bench->nrows; row += dirty->count)
            lane->row[row].unprotected_ns = least;
    }
    return result;
}

static int open_lane(struct bench_dirty *bench, struct bench_dirty_lane *lane, struct error *err)
{
    int result = bench_dirty_lane_open(bench, lane, err);

    if (!result)
        result = measure_unprotected(bench, lane, err);
    if (!result)
        result = bench_dirty_lane_log(lane, err);
    if (!result)
        result = bench_dirty_pass(lane, bench->config->nslots, &lane->first, err);
    return result;
}

static int run_rows(struct bench_dirty *bench, struct error *err)
{
    const struct bench_dirty_config *config = bench->config;
    int result = 0;

    for (unsigned iteration = 0; !result && iteration <= config->iterations; iteration++) {
        for (unsigned i = 0; iteration == 1 && i < bench->nlanes; i++)
            bench_dirty_lane_stats(&bench->lane[i], config->ncpus, -1);
        for (unsigned i = 0; !result && i < config->dirty.count; i++)
            result = measure_row(bench, i, iteration, err);
    }
    for (unsigned i = 0; !result && i < bench->nlanes; i++) {
        bench_dirty_lane_stats(&bench->lane[i], config->ncpus, 1);
        bench_dirty_lane_unlog(&bench->lane[i]);
    }
    return result;
}

static int switch_log(const struct bench_dirty *bench, struct bench_dirty_lane *lane,
                      struct error *err)
{
    bool running = bench->config->also_running;
    int result = 0;

    if (running)
        result = writer_vm_hold(lane->vm, false, err);
    if (!result)
        result = bench_dirty_lane_log(lane, err);
    if (!result)
        bench_dirty_lane_unlog(lane);
    if (!result && running)
        result = writer_vm_hold(lane->vm, true, err);
    return result;
}

/* Logging on and off again, beside memory that the guest has just touched: what is protected, and
 * what mappings there are to take down, is the same every time. */
static int run_switching(struct bench_dirty *bench, struct error *err)
{
    unsigned iterations = bench->config->iterations;
    int result = 0;

    for (unsigned iteration = 0; !result && iteration <= iterations; iteration++) {
        for (unsigned i = 0; !result && i < bench->nlanes; i++) {
            struct bench_dirty_lane *lane = &bench->lane[(i + iteration) % bench->nlanes];
            uint64_t ns;

            bench_progress("switching, iteration %u of %u", iteration, iterations);
            result = bench_dirty_lane_list(bench, lane, NULL, lane->npages, err);
            if (!result)
                result = bench_dirty_lane_store(bench, lane, &ns, err);
            if (!result)
                result = switch_log(bench, lane, err);
            if (iteration == 0)
                lane->enable.count = lane->enable_ioctl.count = lane->disable.count = 0;
        }
    }
    return result;
}

int bench_dirty_run(struct bench_dirty *bench, struct error *err)
{
    bool switching = bench->config->touched.count;
    int result = 0;

    for (unsigned i = 0; !result && i < bench->nlanes; i++) {
        struct bench_dirty_lane *lane = &bench->lane[i];
        char name[BENCH_DIRTY_NAME_BYTES];

        result = switching ? bench_dirty_lane_open(bench, lane, err) : open_lane(bench, lane, err);
        if (result)
            error_prefix(err, "%s (VM %u of %u)", bench_dirty_lane_name(lane, name, sizeof(name)),
                         i + 1, bench->nlanes);
    }
    if (!result)
        result = switching ? run_switching(bench, err) : run_rows(bench, err);
    bench_progress_end();
    return result;
}
