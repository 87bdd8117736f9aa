/* SPDX-License-Identifier: MIT */
#include "tools/bench_bitmap_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/host_facts.h"
#include "vmm/base/log.h"

/* The path that a walk of pageferry's takes here, and the others that it could. */
static void print_paths(const struct bench_report *report, char *text, size_t bytes)
{
    size_t used =
        (size_t)snprintf(text, bytes, "bitmap walk %s; measured:", bitmap_path_best()->name);

    for (unsigned i = BENCH_WALK_PATHS; i < report->nwalks && used < bytes; i += 2)
        used += (size_t)snprintf(text + used, bytes - used, " %s", report->walks[i].name);
}

static double gb_per_s(const struct bench_case *measured, const struct bench_walk_result *result)
{
    return (double)measured->bytes / result->median_ns;
}

static void print_heading(struct bench_report *report, const char *title)
{
    unsigned last = report->nwalks;

    report->table_title = title;
    printf("\n%-24s %8s %9s %6s", title, "dirty", "by byte,", "word");
    for (unsigned i = BENCH_WALK_PATHS; i < last; i += 2)
        printf(" %7s %6s", report->walks[i].name, "");
    printf(" %6s %5s\n%-24s %8s %9s %6s", "GB/s", "of", "", "pages", "ns", "loop");
    for (unsigned i = BENCH_WALK_PATHS; i < last; i += 2)
        printf(" %7s %6s", "runs", "pages");
    printf(" %6s %5s\n", report->walks[BENCH_WALK_PATHS].name, "read");
}

static void print_row(struct bench_report *report, const struct bench_case *measured,
                      const struct bench_walk_result *results)
{
    const struct bench_walk_result *best = &results[BENCH_WALK_PATHS];
    const char *title = measured->recorded       ? "recorded"
                        : measured->nbitmaps > 1 ? "16 bitmaps of 32 KiB"
                                                 : "bitmap of 512 KiB";

    if (report->table_title != title)
        print_heading(report, title);
    printf("  %-22s %8" PRIu64 " %9.0f %6.1f", measured->name, measured->sum.pages,
           results[BENCH_WALK_BYTE].median_ns, results[BENCH_WALK_WORD].over_byte);
    for (unsigned i = BENCH_WALK_PATHS; i < report->nwalks; i += 2)
        printf(" %7.1f %6.1f", results[i].over_byte, results[i + 1].over_byte);
    printf(" %6.1f %5.2f\n", gb_per_s(measured, best), best->over_read);
    (void)fflush(stdout);
}

static void print_csv(const struct bench_report *report, const struct bench_case *measured,
                      const struct bench_walk_result *results)
{
    for (unsigned i = 0; i < report->nwalks; i++)
        printf("%s,%d,%" PRIu64 ",%u,%" PRIu64 ",%" PRIu64 ",%s,%s,%.1f,%.1f,%.3f,%.3f,%.3f,%.3f\n",
               measured->name, measured->recorded, measured->bytes, measured->nbitmaps,
               measured->sum.pages, measured->runs, report->walks[i].name, report->walks[i].yields,
               results[i].median_ns, results[i].min_ns, gb_per_s(measured, &results[i]),
               results[i].over_byte, results[i].over_word, results[i].over_read);
    (void)fflush(stdout);
}

static json_t *walk_json(const struct bench_walk *walk, const struct bench_case *measured,
                         const struct bench_walk_result *result)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "walk", walk->name, "yields",
                     walk->yields, "median_ns", result->median_ns, "min_ns", result->min_ns,
                     "gb_per_s", gb_per_s(measured, result), "over_byte", result->over_byte,
                     "over_word", result->over_word, "over_read", result->over_read);
}

static void add_json(struct bench_report *report, const struct bench_case *measured,
                     const struct bench_walk_result *results)
{
    json_t *walks = json_array();

    for (unsigned i = 0; i < report->nwalks; i++)
        (void)json_array_append_new(walks, walk_json(&report->walks[i], measured, &results[i]));
    (void)json_array_append_new(
        report->cases,
        json_pack("{s:s, s:b, s:I, s:i, s:I, s:I, s:o}", "case", measured->name, "recorded",
                  (int)measured->recorded, "bytes", (json_int_t)measured->bytes, "bitmaps",
                  (int)measured->nbitmaps, "pages", (json_int_t)measured->sum.pages, "runs",
                  (json_int_t)measured->runs, "walks", walks));
}

void bench_report_begin(struct bench_report *report)
{
    struct host_facts facts;
    char host[1024], paths[256];

    host_facts_read(&facts);
    host_facts_print(&facts, host, sizeof(host));
    print_paths(report, paths, sizeof(paths));
    switch (report->format) {
    case BENCH_FORMAT_JSON:
        report->cases = json_array();
        break;
    case BENCH_FORMAT_CSV:
        (void)fprintf(stderr, "%s%s\n", host, paths);
        printf("case,recorded,bytes,bitmaps,pages,runs,walk,yields,median_ns,min_ns,gb_per_s,"
               "over_byte,over_word,over_read\n");
        break;
    case BENCH_FORMAT_TEXT:
        printf("%s%s\nHow many times as fast as the loop by byte: medians of %u; what %s walks a "
               "second by runs,\nand that as a share of reading the same memory.\n",
               host, paths, report->turns, report->walks[BENCH_WALK_PATHS].name);
        break;
    }
}

void bench_report_case(struct bench_report *report, const struct bench_case *measured,
                       const struct bench_walk_result *results)
{
    switch (report->format) {
    case BENCH_FORMAT_JSON:
        add_json(report, measured, results);
        break;
    case BENCH_FORMAT_CSV:
        print_csv(report, measured, results);
        break;
    case BENCH_FORMAT_TEXT:
        print_row(report, measured, results);
        break;
    }
}

void bench_report_end(struct bench_report *report)
{
    struct host_facts facts;
    json_t *object;
    char *dump;

    if (report->format != BENCH_FORMAT_JSON)
        return;
    host_facts_read(&facts);
    object = json_pack("{s:o, s:s, s:i, s:o}", "host", host_facts_json(&facts), "path",
                       bitmap_path_best()->name, "iterations", (int)report->turns, "cases",
                       report->cases);
    dump = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    puts(dump ? dump : "{}");
    free(dump);
    json_decref(object);
}
