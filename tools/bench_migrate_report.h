/* SPDX-License-Identifier: MIT
 *
 * The rows of bench migrate, printed. */
#ifndef TOOLS_BENCH_MIGRATE_REPORT_H
#define TOOLS_BENCH_MIGRATE_REPORT_H

#include <jansson.h>

#include "tools/bench_migrate.h"

struct bench_migrate_summary {
    bool has; /* every row has it */
    uint64_t min, median, max;
};

/* 0 or -ENOMEM. */
int bench_migrate_summarize(const struct bench_migrate_row *rows, unsigned nrows,
                            enum bench_migrate_metric metric,
                            struct bench_migrate_summary *summary);

/* One migration, as it ends. `number` 0 warmed up and is not counted. */
void bench_migrate_print_row(unsigned number, const struct bench_migrate_row *row);
/* The table of medians. 0 or -ENOMEM. */
int bench_migrate_print_summary(const struct bench_migrate_row *rows, unsigned nrows);
/* The object of --json; NULL where there is no memory for it. */
json_t *bench_migrate_json(const struct bench_migrate_config *config,
                           const struct bench_migrate_row *rows, unsigned nrows);

#endif
