/* SPDX-License-Identifier: MIT
 *
 * The report of bench dirty-log for programs: JSON and CSV. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/bench_dirty.h"

static const char *const metric_names[BENCH_NMETRICS] = {
    [BENCH_PASS] = "pass_ns",       [BENCH_IOCTL] = "ioctl_ns",     [BENCH_WALK] = "walk_ns",
    [BENCH_HARVEST] = "harvest_ns", [BENCH_REST] = "rest_ns",       [BENCH_FETCH] = "fetch_ns",
    [BENCH_PROTECT] = "protect_ns", [BENCH_LONGEST] = "longest_ns", [BENCH_WRITE] = "write_ns",
};

void bench_dirty_summarize(struct bench_dirty *bench)
{
    for (unsigned i = 0; i < bench->nlanes; i++) {
        struct bench_dirty_lane *lane = &bench->lane[i];

        lane->enabling = bench_samples_summary(&lane->enable);
        lane->enabling_ioctl = bench_samples_summary(&lane->enable_ioctl);
        lane->disabling = bench_samples_summary(&lane->disable);
        for (unsigned j = 0; j < bench->nrows; j++) {
            for (unsigned k = 0; k < BENCH_NMETRICS; k++)
                lane->row[j].summary[k] = bench_samples_summary(&lane->row[j].metric[k]);
        }
    }
}

uint64_t bench_dirty_stall_ns(const struct bench_dirty_row *row)
{
    uint64_t ns = row->summary[BENCH_WRITE].median;

    return ns > row->unprotected_ns ? ns - row->unprotected_ns : 0;
}

static json_t *summary_json(const struct bench_summary *summary)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "min", (json_int_t)summary->min, "median",
                     (json_int_t)summary->median, "p99", (json_int_t)summary->p99, "max",
                     (json_int_t)summary->max);
}

static json_t *row_json(const struct bench_dirty_row *row)
{
    uint64_t pass = row->summary[BENCH_PASS].median;
    uint64_t walk = row->summary[BENCH_WALK].median;
    json_t *object = json_pack(
        "{s:I, s:I, s:b, s:f, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:f, s:I}", "dirty",
        (json_int_t)row->dirty, "pages", (json_int_t)row->pages, "vcpus_running", (int)row->running,
        "ns_per_page", bench_per(pass, row->pages), "ioctls", (json_int_t)row->last.nioctls, "runs",
        (json_int_t)row->last.runs, "words", (json_int_t)row->last.words, "walk_ns_per_run",
        bench_per(walk, row->last.runs), "walk_ns_per_word", bench_per(walk, row->last.words),
        "extra_pages", (json_int_t)row->extra, "ring_full", (json_int_t)row->full_exits, "stall_ns",
        (json_int_t)bench_dirty_stall_ns(row), "stall_ns_per_write",
        bench_per(bench_dirty_stall_ns(row), row->pages), "unprotected_ns",
        (json_int_t)row->unprotected_ns);

    for (unsigned i = 0; object && i < BENCH_NMETRICS; i++)
        (void)json_object_set_new(object, metric_names[i], summary_json(&row->summary[i]));
    if (object && row->before_ns) {
        (void)json_object_set_new(object, "before_ns", json_integer((json_int_t)row->before_ns));
        (void)json_object_set_new(object, "ratio", json_real(bench_per(pass, row->before_ns)));
    }
    return object;
}

static json_t *lane_json(const struct bench_dirty *bench, const struct bench_dirty_lane *lane)
{
    uint64_t slot_bytes = lane->npages * MEMORY_PAGE_BYTES;
    json_t *rows = json_array();
    json_t *object;

    for (unsigned i = 0; rows && i < bench->nrows; i++)
        (void)json_array_append_new(rows, row_json(&lane->row[i]));
    object = json_pack("{s:s, s:I, s:s, s:I, s:o, s:o, s:o, s:o}", "backend",
                       dirty_log_backend_name(lane->backend), "chunk", (json_int_t)lane->chunk,
                       "ranges", bench_dirty_ranges_name(lane->ranges), "slot_bytes",
                       (json_int_t)slot_bytes, "enable_ns", summary_json(&lane->enabling),
                       "enable_ioctl_ns", summary_json(&lane->enabling_ioctl), "disable_ns",
                       summary_json(&lane->disabling), "rows", rows);
    if (!object || !bench->nrows)
        return object;
    (void)json_object_set_new(object, "first_pass_ns",
                              json_integer((json_int_t)lane->first.ns[BENCH_PASS]));
    (void)json_object_set_new(object, "first_longest_ns",
                              json_integer((json_int_t)lane->first.ns[BENCH_LONGEST]));
    (void)json_object_set_new(object, "kvm_stats", bench_kvm_stats_json(&lane->stats));
    return object;
}

json_t *bench_dirty_json(const struct bench_dirty *bench)
{
    const struct bench_dirty_config *config = bench->config;
    json_t *lanes = json_array();

    for (unsigned i = 0; lanes && i < bench->nlanes; i++)
        (void)json_array_append_new(lanes, lane_json(bench, &bench->lane[i]));
    return json_pack(
        "{s:s, s:s, s:o, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:o}", "bench", "dirty-log",
        "version", PAGEFERRY_VERSION, "host", host_facts_json(&bench->host), "slots",
        (json_int_t)config->nslots, "pattern", bench_pattern_name(config->pattern), "backing",
        memory_backing_name(config->backing), "vcpus", (json_int_t)config->ncpus, "ring",
        (json_int_t)config->privilege, "ring_entries", (json_int_t)config->ring_entries,
        "iterations", (json_int_t)config->iterations, "pinned", (int)config->pin, "lanes", lanes);
}

static void print_csv_row(const struct bench_dirty_lane *lane, const struct bench_dirty_row *row)
{
    const struct bench_summary *s = row->summary;

    printf("%s,%" PRIu64 ",%s,%d,%" PRIu64 ",%" PRIu64, dirty_log_backend_name(lane->backend),
           lane->chunk, bench_dirty_ranges_name(lane->ranges), row->running, row->dirty,
           row->pages);
    for (unsigned i = 0; i < BENCH_NMETRICS; i++)
        printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, s[i].min, s[i].median, s[i].p99,
               s[i].max);
    printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
           row->last.nioctls, row->last.runs, row->last.words, row->extra, row->full_exits,
           bench_dirty_stall_ns(row), row->before_ns);
}

void bench_dirty_print_csv(const struct bench_dirty *bench)
{
    if (!bench->nrows) {
        puts("backend,touched_bytes,enable_min,enable_median,enable_p99,enable_max,enable_ioctl_"
             "median,disable_min,"
             "disable_median,disable_p99,disable_max");
        for (unsigned i = 0; i < bench->nlanes; i++) {
            const struct bench_dirty_lane *lane = &bench->lane[i];
            const struct bench_summary *on = &lane->enabling, *off = &lane->disabling;

            printf("%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                   ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                   dirty_log_backend_name(lane->backend), lane->npages * MEMORY_PAGE_BYTES, on->min,
                   on->median, on->p99, on->max, lane->enabling_ioctl.median, off->min, off->median,
                   off->p99, off->max);
        }
        return;
    }
    (void)fputs("backend,chunk,ranges,vcpus_running,dirty,pages", stdout);
    for (unsigned i = 0; i < BENCH_NMETRICS; i++)
        printf(",%s_min,%s_median,%s_p99,%s_max", metric_names[i], metric_names[i], metric_names[i],
               metric_names[i]);
    puts(",ioctls,runs,words,extra_pages,ring_full,stall_ns,before_ns");
    for (unsigned i = 0; i < bench->nlanes; i++) {
        for (unsigned j = 0; j < bench->nrows; j++)
            print_csv_row(&bench->lane[i], &bench->lane[i].row[j]);
    }
}
