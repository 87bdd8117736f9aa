/* SPDX-License-Identifier: MIT
 *
 * One pass over a dirty log, as a migration's round makes it: fetched once, then claimed chunk by
 * chunk, then walked. */
#include "tools/bench_dirty_lane.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"

/* What uses the runs: hardly anything, so that walking is what is measured. */
struct consumed {
    uint64_t pages, runs;
};

static void walk(const uint64_t *words, uint64_t npages, struct consumed *consumed)
{
    struct bitmap_run run[BITMAP_RUNS_BATCH];
    uint64_t position = 0;
    size_t count;

    while ((count = bitmap_runs(words, npages, &position, run, BITMAP_RUNS_BATCH)) > 0) {
        for (size_t i = 0; i < count; i++)
            consumed->pages += run[i].count;
        consumed->runs += count;
    }
}

/* All chunks are claimed, then walked: between chunks a clock would cost more than a short walk. */
static int claim_slot(struct bench_dirty_lane *lane, unsigned slot, struct error *err)
{
    uint64_t npages = lane->npages;
    int result = 0;

    for (uint64_t first = 0; !result && first < npages; first += lane->chunk) {
        uint64_t count = npages - first < lane->chunk ? npages - first : lane->chunk;
        uint64_t *words;

        result = dirty_log_claim(lane->log, slot, first, count, &words, err);
        /* The chunks of a slot lie side by side. */
        if (!result && first == 0)
            lane->words[slot] = words;
    }
    return result;
}

int bench_dirty_pass(struct bench_dirty_lane *lane, unsigned nslots, struct bench_pass *pass,
                     struct error *err)
{
    struct consumed consumed = {0};
    struct dirty_log_sync found;
    struct dirty_log_cost fetch, protect;
    uint64_t begin_ns, synced_ns, claimed_ns;
    uint64_t *ns = pass->ns;
    int result;

    *pass = (struct bench_pass){.words = nslots * bitmap_words(lane->npages)};
    dirty_log_cost_reset(lane->log);
    begin_ns = clock_now_ns();
    result = dirty_log_sync(lane->log, &found, err);
    synced_ns = clock_now_ns();
    fetch = dirty_log_cost(lane->log);
    dirty_log_cost_reset(lane->log);
    for (unsigned slot = 0; !result && slot < nslots; slot++)
        result = claim_slot(lane, slot, err);
    if (result)
        return result;
    claimed_ns = clock_now_ns();
    for (unsigned slot = 0; slot < nslots; slot++)
        walk(lane->words[slot], lane->npages, &consumed);
    ns[BENCH_WALK] = clock_now_ns() - claimed_ns;
    ns[BENCH_PASS] = ns[BENCH_WALK] + claimed_ns - begin_ns;
    protect = dirty_log_cost(lane->log);
    ns[BENCH_FETCH] = fetch.ioctl_ns;
    ns[BENCH_PROTECT] = protect.ioctl_ns;
    ns[BENCH_IOCTL] = fetch.ioctl_ns + protect.ioctl_ns;
    ns[BENCH_LONGEST] =
        fetch.longest_ns > protect.longest_ns ? fetch.longest_ns : protect.longest_ns;
    /* Of a ring's sync nearly all is reading entries; a bitmap's has its ioctl, and what little is
     * left is ours. */
    if (lane->backend == DIRTY_LOG_RING)
        ns[BENCH_HARVEST] = synced_ns - begin_ns - fetch.ioctl_ns;
    ns[BENCH_REST] = ns[BENCH_PASS] - ns[BENCH_IOCTL] - ns[BENCH_WALK] - ns[BENCH_HARVEST];
    pass->nioctls = fetch.nioctls + protect.nioctls;
    pass->pages = consumed.pages;
    pass->runs = consumed.runs;
    return 0;
}
