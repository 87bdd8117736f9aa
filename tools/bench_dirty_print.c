/* SPDX-License-Identifier: MIT
 *
 * The report of bench dirty-log for people: narrow enough for a mail. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/bench_dirty.h"
#include "vmm/base/size.h"

static void print_host(const struct bench_dirty *bench)
{
    const struct bench_dirty_config *config = bench->config;
    char text[512], size[16];

    host_facts_print(&bench->host, text, sizeof(text));
    (void)fputs(text, stdout);
    if (!bench->nrows) {
        printf("bench: backing %s, %u vCPU(s), %s, %u iterations; ns\n",
               memory_backing_name(config->backing), config->ncpus,
               config->also_running ? "running" : "stopped", config->iterations);
        return;
    }
    printf("bench: %u slot(s) of %s, %s, backing %s, %u vCPU(s) in ring %u%s, %u iterations; ns\n",
           config->nslots, size_format(config->npages * MEMORY_PAGE_BYTES, size, sizeof(size)),
           bench_pattern_name(config->pattern), memory_backing_name(config->backing), config->ncpus,
           config->privilege, config->pin ? ", pinned" : "", config->iterations);
}

static void print_row(const struct bench_dirty_lane *lane, const struct bench_dirty_row *row)
{
    const struct bench_summary *s = row->summary;
    const struct bench_summary *pass = &s[BENCH_PASS];

    printf("%8" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9.1f %9" PRIu64
           " %8" PRIu64 " %6.1f %5.2f %6" PRIu64 " %8" PRIu64,
           row->dirty, pass->min, pass->median, pass->p99, pass->max,
           bench_per(pass->median, row->pages), s[BENCH_IOCTL].median, s[BENCH_WALK].median,
           bench_per(s[BENCH_WALK].median, row->last.runs),
           bench_per(s[BENCH_WALK].median, row->last.words), s[BENCH_REST].median,
           s[BENCH_LONGEST].median);
    if (lane->backend == DIRTY_LOG_RING)
        printf(" %8" PRIu64 " %6" PRIu64, s[BENCH_HARVEST].median, row->full_exits);
    if (row->before_ns)
        printf(" %9" PRIu64 " %6.2f", row->before_ns, bench_per(pass->median, row->before_ns));
    printf("%s\n", row->extra ? " +" : "");
}

/* Rows of a lane with stopped or with running vCPUs. */
static void print_passes(const struct bench_dirty *bench, const struct bench_dirty_lane *lane,
                         unsigned first)
{
    char name[BENCH_DIRTY_NAME_BYTES];
    unsigned end = first + bench->config->dirty.count;
    bool compared = false, extra = false;

    for (unsigned i = first; i < end; i++) {
        compared |= lane->row[i].before_ns != 0;
        extra |= lane->row[i].extra != 0;
    }
    printf("\n%s; vCPUs %s: the pass\n", bench_dirty_lane_name(lane, name, sizeof(name)),
           first ? "running" : "stopped");
    printf("%8s %9s %9s %9s %9s %9s %9s %8s %6s %5s %6s %8s%s%s\n", "dirty", "min", "median", "p99",
           "max", "ns/page", "ioctl", "walk", "/run", "/word", "rest", "longest",
           lane->backend == DIRTY_LOG_RING ? "  harvest   full" : "",
           compared ? "    before  ratio" : "");
    for (unsigned i = first; i < end; i++)
        print_row(lane, &lane->row[i]);
    if (extra)
        puts("+ the log held pages beside those that were stored to");
}

static void print_stats(const struct bench_dirty_lane *lane)
{
    const struct bench_kvm_stats *stats = &lane->stats;
    const unsigned width = 76;
    unsigned column = 0;

    for (unsigned i = 0; i < stats->count; i++) {
        char text[BENCH_KVM_STATS_BYTES + 24];
        unsigned length;

        if (!stats->stat[i].value)
            continue;
        length = (unsigned)snprintf(text, sizeof(text), " %s %" PRId64, stats->stat[i].name,
                                    stats->stat[i].value);
        if (!column || column + length > width) {
            (void)fputs(column ? ",\n      " : "  KVM:", stdout);
            column = 6;
        } else {
            (void)fputs(",", stdout);
        }
        (void)fputs(text, stdout);
        column += length + 1;
    }
    if (column)
        puts("");
}

static void print_lanes(const struct bench_dirty *bench)
{
    char name[BENCH_DIRTY_NAME_BYTES];

    puts("");
    for (unsigned i = 0; i < bench->nlanes; i++) {
        const struct bench_dirty_lane *lane = &bench->lane[i];

        printf("%s: on %" PRIu64 ", off %" PRIu64 "; first pass %" PRIu64
               ", its longest ioctl %" PRIu64 "\n",
               bench_dirty_lane_name(lane, name, sizeof(name)), lane->enabling.median,
               lane->disabling.median, lane->first.ns[BENCH_PASS], lane->first.ns[BENCH_LONGEST]);
        print_stats(lane);
    }
}

/* What lanes there are, numbered: their names would not fit above columns. */
static void print_columns(const struct bench_dirty *bench, const char *left, const char *right)
{
    char name[BENCH_DIRTY_NAME_BYTES];

    if (bench->nlanes > 1) {
        for (unsigned i = 0; i < bench->nlanes; i++)
            printf("  (%u) %s\n", i + 1,
                   bench_dirty_lane_name(&bench->lane[i], name, sizeof(name)));
    }
    printf("%8s", "dirty");
    for (unsigned i = 0; i < bench->nlanes; i++) {
        if (bench->nlanes > 1)
            (void)snprintf(name, sizeof(name), "(%u) %s", i + 1, left);
        else
            (void)snprintf(name, sizeof(name), "%s", left);
        printf(" | %14s %9s", name, right);
    }
    puts("");
}

static void print_guest(const struct bench_dirty *bench, unsigned first)
{
    unsigned end = first + bench->config->dirty.count;

    if (!bench->lane[0].row[first].summary[BENCH_WRITE].median)
        return;
    printf("\nvCPUs %s: what the guest pays beyond the stores themselves\n",
           first ? "running" : "stopped");
    print_columns(bench, "stall us", "ns/write");
    for (unsigned i = first; i < end; i++) {
        printf("%8" PRIu64, bench->lane[0].row[i].dirty);
        for (unsigned j = 0; j < bench->nlanes; j++) {
            const struct bench_dirty_row *row = &bench->lane[j].row[i];
            uint64_t stall = bench_dirty_stall_ns(row);

            printf(" | %14" PRIu64 " %9.0f", stall / 1000, bench_per(stall, row->pages));
        }
        puts("");
    }
}

static void print_2012(const struct bench_dirty *bench, unsigned first)
{
    printf("\nvCPUs %s: a pass over 1 GiB, dirty pages completely distributed\n",
           first ? "running" : "stopped");
    print_columns(bench, "ns", "ns/page");
    for (unsigned i = first; i < first + bench->config->dirty.count; i++) {
        printf("%8" PRIu64, bench->lane[0].row[i].dirty);
        for (unsigned j = 0; j < bench->nlanes; j++) {
            const struct bench_dirty_row *row = &bench->lane[j].row[i];
            uint64_t ns = row->summary[BENCH_PASS].median;

            printf(" | %14" PRIu64 " %9.1f", ns, bench_per(ns, row->pages));
        }
        puts("");
    }
}

static void print_switching(const struct bench_dirty *bench)
{
    printf("\n%10s %10s | %10s %10s %10s %10s %10s | %11s %10s\n", "log", "touched", "on: min",
           "median", "p99", "max", "ioctl", "off: median", "max");
    for (unsigned i = 0; i < bench->nlanes; i++) {
        const struct bench_dirty_lane *lane = &bench->lane[i];
        const struct bench_summary *on = &lane->enabling, *off = &lane->disabling;
        char size[16];

        printf("%10s %10s | %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64
               " | %11" PRIu64 " %10" PRIu64 "\n",
               dirty_log_backend_name(lane->backend),
               size_format(lane->npages * MEMORY_PAGE_BYTES, size, sizeof(size)), on->min,
               on->median, on->p99, on->max, lane->enabling_ioctl.median, off->median, off->max);
    }
}

void bench_dirty_print(const struct bench_dirty *bench)
{
    unsigned nrows = bench->config->dirty.count;

    print_host(bench);
    if (!bench->nrows) {
        print_switching(bench);
        return;
    }
    for (unsigned first = 0; first < bench->nrows; first += nrows) {
        if (bench->config->table_2012)
            print_2012(bench, first);
    }
    for (unsigned i = 0; i < bench->nlanes; i++) {
        for (unsigned first = 0; first < bench->nrows; first += nrows)
            print_passes(bench, &bench->lane[i], first);
    }
    for (unsigned first = 0; first < bench->nrows; first += nrows)
        print_guest(bench, first);
    print_lanes(bench);
}
