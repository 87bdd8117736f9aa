/* SPDX-License-Identifier: MIT */
#include "tools/bench_migrate_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "tools/bench_samples.h"
#include "vmm/base/size.h"

enum unit { BYTES_PER_S, MILLIONTHS, NANOSECONDS, BYTES, COUNT };

static const struct metric {
    const char *key, *label;
    enum unit unit;
} metrics[BENCH_MIGRATE_NMETRICS] = {
    [BENCH_MIGRATE_RATE] = {"bytes_per_s", "throughput", BYTES_PER_S},
    [BENCH_MIGRATE_RAW] = {"raw_bytes_per_s", "raw copy into 4 KiB pages", BYTES_PER_S},
    [BENCH_MIGRATE_RAW_HUGE] = {"raw_huge_bytes_per_s", "raw copy into huge pages", BYTES_PER_S},
    [BENCH_MIGRATE_OVER_RAW] = {"over_raw", "throughput / raw copy, 4 KiB", MILLIONTHS},
    [BENCH_MIGRATE_OVER_HUGE] = {"over_raw_huge", "throughput / raw copy, huge", MILLIONTHS},
    [BENCH_MIGRATE_TOTAL] = {"total_ns", "total time", NANOSECONDS},
    [BENCH_MIGRATE_DOWNTIME] = {"downtime_ns", "downtime", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_SETUP] = {"setup_ns", "  setup", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_ROUNDS] = {"rounds_ns", "  rounds", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_PAUSE] = {"pause_ns", "  pause", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_FINAL] = {"final_ns", "  last pages", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_STATE] = {"state_ns", "  state", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_READY] = {"ready_ns", "  ready", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_COMMIT] = {"commit_ns", "  commit", NANOSECONDS},
    [BENCH_MIGRATE_PHASE_RESUME] = {"resume_ns", "  resume", NANOSECONDS},
    [BENCH_MIGRATE_BLACKOUT] = {"blackout_ns", "blackout", NANOSECONDS},
    [BENCH_MIGRATE_BROWNOUT] = {"work_lost_ns", "guest work lost, as time", NANOSECONDS},
    [BENCH_MIGRATE_WORK_LOST] = {"work_lost", "guest work lost", COUNT},
    [BENCH_MIGRATE_ROUNDS] = {"rounds", "rounds", COUNT},
    [BENCH_MIGRATE_SENT] = {"bytes_sent", "sent", BYTES},
    [BENCH_MIGRATE_SOURCE_MEMORY] = {"source_memory_bytes", "source, beyond guest RAM", BYTES},
    [BENCH_MIGRATE_TARGET_MEMORY] = {"target_memory_bytes", "destination, beyond guest RAM", BYTES},
    [BENCH_MIGRATE_TARGET_RAM] = {"target_ram_bytes", "guest RAM at the destination", BYTES},
    [BENCH_MIGRATE_SOURCE_CPU] = {"source_cpu_ns", "source, CPU time", NANOSECONDS},
    [BENCH_MIGRATE_TARGET_CPU] = {"target_cpu_ns", "destination, CPU time", NANOSECONDS},
};

int bench_migrate_summarize(const struct bench_migrate_row *rows, unsigned nrows,
                            enum bench_migrate_metric metric, struct bench_migrate_summary *summary)
{
    struct bench_samples samples;
    struct bench_summary found;
    bool all = nrows > 0;

    *summary = (struct bench_migrate_summary){0};
    if (bench_samples_init(&samples, nrows ? nrows : 1))
        return -ENOMEM;
    for (unsigned i = 0; i < nrows; i++) {
        all = all && rows[i].has[metric];
        bench_samples_add(&samples, rows[i].value[metric]);
    }
    found = bench_samples_summary(&samples);
    bench_samples_free(&samples);
    if (all)
        *summary = (struct bench_migrate_summary){
            .has = true, .min = found.min, .median = found.median, .max = found.max};
    return 0;
}

static const char *format(enum unit unit, uint64_t value, char text[24])
{
    switch (unit) {
    case BYTES_PER_S:
        (void)snprintf(text, 24, "%.2f Gbit/s", (double)value * 8 / 1e9);
        break;
    case MILLIONTHS:
        (void)snprintf(text, 24, "%.3f", (double)value / 1e6);
        break;
    case NANOSECONDS:
        (void)snprintf(text, 24, "%.3f ms", (double)value / 1e6);
        break;
    case BYTES:
        (void)snprintf(text, 24, "%.1f MiB", (double)value / SIZE_MIB);
        break;
    case COUNT:
        (void)snprintf(text, 24, "%" PRIu64, value);
        break;
    }
    return text;
}

void bench_migrate_print_row(unsigned number, const struct bench_migrate_row *row)
{
    static const enum bench_migrate_metric shown[] = {
        BENCH_MIGRATE_RATE,  BENCH_MIGRATE_OVER_RAW, BENCH_MIGRATE_OVER_HUGE,
        BENCH_MIGRATE_TOTAL, BENCH_MIGRATE_DOWNTIME, BENCH_MIGRATE_BLACKOUT};
    static const char *const names[] = {"", "/raw ", "/raw huge ", "in ", "down ", "blackout "};
    char text[24];

    if (number)
        printf("%4u:", number);
    else
        printf("warm:");
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        if (row->has[shown[i]])
            printf("%s %s%s", i ? "," : "", names[i],
                   format(metrics[shown[i]].unit, row->value[shown[i]], text));
    }
    printf("\n");
    (void)fflush(stdout);
}

int bench_migrate_print_summary(const struct bench_migrate_row *rows, unsigned nrows)
{
    char median[24], min[24], max[24];

    printf("\n%-30s  %14s  %14s  %14s\n", "", "median", "min", "max");
    for (unsigned i = 0; i < BENCH_MIGRATE_NMETRICS; i++) {
        struct bench_migrate_summary summary;

        if (bench_migrate_summarize(rows, nrows, (enum bench_migrate_metric)i, &summary))
            return -ENOMEM;
        if (summary.has)
            printf("%-30s  %14s  %14s  %14s\n", metrics[i].label,
                   format(metrics[i].unit, summary.median, median),
                   format(metrics[i].unit, summary.min, min),
                   format(metrics[i].unit, summary.max, max));
    }
    return 0;
}

static json_t *number(enum unit unit, uint64_t value)
{
    return unit == MILLIONTHS ? json_real((double)value / 1e6) : json_integer((json_int_t)value);
}

static json_t *row_json(const struct bench_migrate_row *row)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < BENCH_MIGRATE_NMETRICS; i++) {
        if (row->has[i])
            (void)json_object_set_new(object, metrics[i].key,
                                      number(metrics[i].unit, row->value[i]));
    }
    return object;
}

static json_t *summary_json(const struct bench_migrate_row *rows, unsigned nrows)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < BENCH_MIGRATE_NMETRICS; i++) {
        struct bench_migrate_summary summary;

        if (bench_migrate_summarize(rows, nrows, (enum bench_migrate_metric)i, &summary)) {
            json_decref(object);
            return NULL;
        }
        if (summary.has)
            (void)json_object_set_new(object, metrics[i].key,
                                      json_pack("{s:o, s:o, s:o}", "median",
                                                number(metrics[i].unit, summary.median), "min",
                                                number(metrics[i].unit, summary.min), "max",
                                                number(metrics[i].unit, summary.max)));
    }
    return object;
}

static void put_load(json_t *object, const struct bench_migrate_config *config)
{
    if (!config->engine) {
        (void)json_object_set_new(object, "workload", json_string(config->workload));
        return;
    }
    (void)json_object_set_new(object, "touched_bytes",
                              json_integer((json_int_t)config->touched_bytes));
    if (!config->dirty_rate)
        return;
    (void)json_object_set_new(object, "dirty_rate", json_integer((json_int_t)config->dirty_rate));
    (void)json_object_set_new(object, "dirty_bytes", json_integer((json_int_t)config->dirty_bytes));
    (void)json_object_set_new(object, "dirty_random", json_boolean(config->dirty_random));
}

json_t *bench_migrate_json(const struct bench_migrate_config *config,
                           const struct bench_migrate_row *rows, unsigned nrows)
{
    json_t *migrations = json_array(), *object;

    for (unsigned i = 0; i < nrows; i++)
        (void)json_array_append_new(migrations, row_json(&rows[i]));
    object = json_pack("{s:s, s:b, s:I, s:s, s:o, s:o}", "bench", "migrate", "engine",
                       config->engine, "memory_bytes", (json_int_t)config->memory_bytes, "backing",
                       memory_backing_name(config->backing), "migrations", migrations, "summary",
                       summary_json(rows, nrows));
    if (object)
        put_load(object, config);
    return object;
}
