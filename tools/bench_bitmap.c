/* SPDX-License-Identifier: MIT
 *
 * pageferry bench bitmap: what the walk over a dirty bitmap costs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/bench_bitmap_cases.h"
#include "tools/bench_bitmap_measure.h"
#include "tools/bench_bitmap_report.h"
#include "tools/bench_bitmap_walks.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/server.h"
#include "vmm/base/log.h"

static const char help[] =
    "usage: pageferry bench bitmap [OPTION…]\n\n"
    "Walks dirty bitmaps of 32 and 512 KiB, made up and recorded ones: by byte and by\n"
    "word, as VMMs used to, and in each way that pageferry has for this CPU, by runs\n"
    "and by pages. All count the pages and XOR their numbers, and must agree.\n\n"
    "      --corpus PATH    recordings of migrate --record-dirty (default: those of\n"
    "                       pageferry)\n"
    "      --path NAME      only this way: scalar, avx2 or avx512\n"
    "      --iterations N   how often each is measured, by turns (default 21)\n"
    "      --json           one JSON object instead of the table\n"
    "      --csv            a line for each measurement instead\n";

#define DEFAULT_TURNS 21
#define MAX_TURNS     10000

struct bench_bitmap_options {
    const char *corpus; /* NULL: where pageferry's own may be */
    const char *path;   /* NULL: all */
    uint64_t turns;
    bool json, csv;
};

/* The path of that name, which this CPU must have. */
static int find_path(const char *name, const struct bitmap_path **found, struct error *err)
{
    const struct bitmap_path *path;
    char names[64] = "";

    for (unsigned i = 0; (path = bitmap_path_at(i)); i++) {
        if (path->supported() && strcmp(path->name, name) == 0) {
            *found = path;
            return 0;
        }
        if (path->supported())
            (void)snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", path->name);
    }
    return error_set(err, EINVAL, "--path: this CPU has no '%s', but%s", name, names);
}

/* The user's corpus, or pageferry's: in its tree, or where it is installed. */
static int add_corpus(struct bench_cases *cases, const char *directory, struct error *err)
{
    static const char *const usual[] = {PAGEFERRY_CORPUS_SOURCE, PAGEFERRY_CORPUS_INSTALLED};
    struct stat status;

    if (directory)
        return bench_cases_add_corpus(cases, directory, err);
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        if (stat(usual[i], &status) == 0)
            return bench_cases_add_corpus(cases, usual[i], err);
    }
    log_warning("no recordings in %s: synthetic bitmaps only; see --corpus", usual[1]);
    return 0;
}

static int measure(const struct bench_cases *cases, struct bench_report *report, struct error *err)
{
    int rc = 0;

    bench_report_begin(report);
    for (unsigned i = 0; !rc && i < cases->count; i++) {
        struct bench_walk_result results[BENCH_WALKS_MAX];

        rc = bench_measure(&cases->at[i], report->walks, report->nwalks, report->turns, results,
                           err);
        if (!rc)
            bench_report_case(report, &cases->at[i], results);
    }
    if (!rc)
        bench_report_end(report);
    return rc;
}

static int run(const struct bench_bitmap_options *options)
{
    struct bench_walk walks[BENCH_WALKS_MAX];
    struct bench_report report = {.format = options->json  ? BENCH_FORMAT_JSON
                                            : options->csv ? BENCH_FORMAT_CSV
                                                           : BENCH_FORMAT_TEXT,
                                  .walks = walks,
                                  .turns = (unsigned)options->turns};
    const struct bitmap_path *only = NULL;
    struct bench_cases cases = {0};
    struct error err;
    int rc;

    if (options->path && find_path(options->path, &only, &err)) {
        log_error("%s", err.text);
        return SERVER_EXIT_USAGE;
    }
    report.nwalks = bench_walks(walks, only);
    rc = bench_cases_add_synthetic(&cases, &err);
    if (!rc)
        rc = add_corpus(&cases, options->corpus, &err);
    if (!rc)
        rc = measure(&cases, &report, &err);
    if (rc)
        log_error("%s", err.text);
    bench_cases_free(&cases);
    return rc ? SERVER_EXIT_FAILURE : 0;
}

int bench_bitmap(int argc, char **argv)
{
    struct bench_bitmap_options options = {.turns = DEFAULT_TURNS};
    const struct option_rule rules[] = {
        {"corpus", 0, OPTION_STRING, &options.corpus, 0},
        {"path", 0, OPTION_STRING, &options.path, 0},
        {"iterations", 0, OPTION_NUMBER, &options.turns, MAX_TURNS},
        {"json", 0, OPTION_FLAG, &options.json, 0},
        {"csv", 0, OPTION_FLAG, &options.csv, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0},
    };
    char **operands;
    int noperands;
    enum options_result result = options_parse(argc, argv, rules, help, &operands, &noperands);

    if (result != OPTIONS_GO)
        return (int)result;
    if (noperands)
        log_error("bench bitmap takes no operand: '%s' is left over", operands[0]);
    else if (options.json && options.csv)
        log_error("--json and --csv exclude each other");
    else if (!options.turns)
        log_error("--iterations 0 measures nothing: 1 is the least");
    else
        return run(&options);
    return SERVER_EXIT_USAGE;
}
