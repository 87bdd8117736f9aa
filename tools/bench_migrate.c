/* SPDX-License-Identifier: MIT */
#include "tools/bench_migrate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_child.h"
#include "tools/bench_migrate_report.h"
#include "tools/bench_progress.h"
#include "tools/commands.h"
#include "tools/raw_copy.h"
#include "tools/server.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"

#define MILLION 1e6

static int add_raw(uint64_t bytes, bool huge, enum bench_migrate_metric metric,
                   enum bench_migrate_metric ratio, struct bench_migrate_row *row,
                   struct error *err)
{
    uint64_t ns;
    double rate;
    int rc = raw_copy(bytes, huge, &ns, err);

    if (rc)
        return rc;
    rate = (double)bytes * (double)CLOCK_NS_PER_SEC / (double)(ns ? ns : 1);
    bench_migrate_put(row, metric, (uint64_t)rate);
    if (rate > 0)
        bench_migrate_put(row, ratio,
                          (uint64_t)((double)row->value[BENCH_MIGRATE_RATE] / rate * MILLION));
    return 0;
}

/* One migration and the raw copies beside it. */
static int turn(const struct bench_migrate_config *config, struct bench_migrate_row *row,
                struct error *err)
{
    uint64_t bytes = config->touched_bytes;
    int rc = config->engine ? bench_migrate_engine(config, row, err)
                            : bench_migrate_guest(config, row, err);

    if (!rc && config->once)
        return 0;
    if (!rc)
        rc = add_raw(bytes, false, BENCH_MIGRATE_RAW, BENCH_MIGRATE_OVER_RAW, row, err);
    if (!rc)
        rc = add_raw(bytes, true, BENCH_MIGRATE_RAW_HUGE, BENCH_MIGRATE_OVER_HUGE, row, err);
    return rc;
}

static int measure(const struct bench_migrate_config *config, struct bench_migrate_row *rows,
                   struct error *err)
{
    for (unsigned i = config->once; i <= config->repeat; i++) {
        struct bench_migrate_row row = {{0}, {0}};
        int rc;

        bench_progress("migration %u of %u", i, config->repeat);
        rc = turn(config, &row, err);
        bench_progress_end();
        if (rc)
            return rc;
        if (!config->json)
            bench_migrate_print_row(i, &row);
        if (i)
            rows[i - 1] = row;
    }
    return 0;
}

static int report(const struct bench_migrate_config *config, const struct bench_migrate_row *rows)
{
    json_t *object;
    int rc = 0;

    if (!config->json)
        return bench_migrate_print_summary(rows, config->repeat);
    object = bench_migrate_json(config, rows, config->repeat);
    if (!object || json_dumpf(object, stdout, JSON_INDENT(2)))
        rc = -ENOMEM;
    json_decref(object);
    printf("\n");
    return rc;
}

int bench_migrate(int argc, char **argv)
{
    struct bench_migrate_config config;
    enum options_result parsed = bench_migrate_options(argc, argv, &config);
    struct bench_migrate_row *rows;
    struct error err = {""};
    int rc;

    if (parsed != OPTIONS_GO)
        return (int)parsed;
    bench_catch_signals();
    rows = calloc(config.repeat, sizeof(*rows));
    rc = rows ? measure(&config, rows, &err) : error_set(&err, ENOMEM, "no memory for the results");
    if (!rc && report(&config, rows))
        rc = error_set(&err, ENOMEM, "no memory for the report");
    if (rc)
        log_error("bench migrate: %s", err.text);
    free(rows);
    return rc ? SERVER_EXIT_FAILURE : 0;
}
