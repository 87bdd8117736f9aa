/* SPDX-License-Identifier: MIT
 *
 * The results of `pageferry bench bitmap` on stdout: a table for people, CSV or JSON. */
#ifndef TOOLS_BENCH_BITMAP_REPORT_H
#define TOOLS_BENCH_BITMAP_REPORT_H

#include <jansson.h>

#include "tools/bench_bitmap_measure.h"
#include "tools/bench_format.h"

struct bench_report {
    enum bench_format format;
    const struct bench_walk *walks;
    unsigned nwalks;
    unsigned turns;
    json_t *cases;           /* BENCH_FORMAT_JSON */
    const char *table_title; /* of the part that is being printed, BENCH_FORMAT_TEXT */
};

/* format, walks, nwalks and turns are set, the rest is zero. What was measured comes case by case,
 * so that a table grows while the bench works; JSON comes as a whole at the end. */
void bench_report_begin(struct bench_report *report);
void bench_report_case(struct bench_report *report, const struct bench_case *measured,
                       const struct bench_walk_result *results);
void bench_report_end(struct bench_report *report);

#endif
