/* SPDX-License-Identifier: MIT
 *
 * A guest that runs, migrated once and watched from outside. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "tools/bench_child.h"
#include "tools/bench_migrate.h"
#include "tools/bench_observer.h"
#include "tools/bench_pair.h"
#include "tools/bench_usage.h"
#include "tools/bench_warm.h"
#include "vmm/base/clock.h"

#define BOOT_NS   (300 * CLOCK_NS_PER_SEC)
#define MOVE_NS   (600 * CLOCK_NS_PER_SEC)
#define CALM_NS   (500 * CLOCK_NS_PER_MS) /* the undisturbed rate is taken over this */
#define GLANCE_NS 50000                   /* from one look to the next */

struct watch {
    const struct bench_migrate_config *config;
    struct bench_pair pair;
    struct bench_observer observer;
    uint64_t calm_work, calm_ns; /* done undisturbed, in that time */
    uint64_t work, ns;           /* the same from the start of the migration to its end */
    uint64_t source_ram;
    struct bench_usage source_before, target_before;
};

/* One look, after a glance's time. */
static int glance(struct watch *watch, struct error *err)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = GLANCE_NS}, NULL);
    if (bench_interrupted())
        return error_set(err, EINTR, "interrupted");
    bench_observer_look(&watch->observer, clock_now_ns());
    return 0;
}

static int source_ended(struct watch *watch, struct error *err)
{
    char said[200];
    int status;

    if (!bench_process_ended(watch->pair.source, &status))
        return 0;
    watch->pair.source = 0;
    bench_pair_last_words(&watch->pair, "source", said, sizeof(said));
    return error_set(err, ECHILD, "the guest did not run: %s", said);
}

/* The guest has begun its workload, and has shown what it does undisturbed. */
static int watch_calm(struct watch *watch, struct error *err)
{
    uint64_t begin = clock_now_ns(), work;
    int rc = 0;

    while (!bench_view_ready(&watch->observer.source) || !watch->observer.source.beats) {
        (void)bench_view_open(&watch->observer.source, watch->pair.source);
        rc = source_ended(watch, err);
        if (!rc)
            rc = glance(watch, err);
        if (!rc && clock_now_ns() - begin > BOOT_NS)
            rc = error_set(err, ETIMEDOUT, "the guest does not begin its workload");
        if (rc)
            return rc;
    }
    begin = clock_now_ns();
    work = bench_observer_work(&watch->observer);
    while (!rc && clock_now_ns() - begin < CALM_NS)
        rc = glance(watch, err);
    watch->calm_ns = clock_now_ns() - begin;
    watch->calm_work = bench_observer_work(&watch->observer) - work;
    return rc;
}

/* Until `pageferry migrate` has ended and the guest was seen at the destination. */
static int watch_move(struct watch *watch, struct error *err)
{
    uint64_t begin, work;
    char said[200];
    int status = -1, rc;
    bool ended = false;
    pid_t pid;

    bench_warm(watch->config->memory_bytes);
    bench_observer_look(&watch->observer, clock_now_ns());
    begin = clock_now_ns();
    work = bench_observer_work(&watch->observer);
    rc = bench_pair_migrate(&watch->pair, watch->config, &pid, err);

    if (rc)
        return rc;
    while (!rc && !(ended && watch->observer.first_at_target_ns)) {
        (void)bench_view_open(&watch->observer.target, watch->pair.target);
        rc = glance(watch, err);
        if (!ended)
            ended = bench_process_ended(pid, &status);
        if (!rc && ended && status) {
            bench_pair_last_words(&watch->pair, "migrate", said, sizeof(said));
            return error_set(err, EIO, "%s", said);
        }
        if (!rc && clock_now_ns() - begin > MOVE_NS)
            rc = error_set(err, ETIMEDOUT, "the migration does not end");
    }
    watch->ns = clock_now_ns() - begin;
    watch->work = bench_observer_work(&watch->observer) - work;
    if (!ended) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return rc;
}

static void put_number(struct bench_migrate_row *row, enum bench_migrate_metric metric,
                       const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_integer(value) && json_integer_value(value) >= 0)
        bench_migrate_put(row, metric, (uint64_t)json_integer_value(value));
}

/* What the migration says of itself. */
static int take_result(const struct watch *watch, struct bench_migrate_row *row, struct error *err)
{
    static const struct {
        enum bench_migrate_metric metric;
        const char *key;
    } phases[] = {
        {BENCH_MIGRATE_PHASE_SETUP, "setup_ns"},   {BENCH_MIGRATE_PHASE_ROUNDS, "rounds_ns"},
        {BENCH_MIGRATE_PHASE_PAUSE, "pause_ns"},   {BENCH_MIGRATE_PHASE_FINAL, "final_ns"},
        {BENCH_MIGRATE_PHASE_STATE, "state_ns"},   {BENCH_MIGRATE_PHASE_READY, "ready_ns"},
        {BENCH_MIGRATE_PHASE_COMMIT, "commit_ns"}, {BENCH_MIGRATE_PHASE_RESUME, "resume_ns"},
    };
    char path[96];
    json_error_t wrong;
    json_t *result;

    (void)snprintf(path, sizeof(path), "%s/migrate.out", watch->pair.directory);
    result = json_load_file(path, 0, &wrong);
    if (!result)
        return error_set(err, EPROTO, "pageferry migrate printed no JSON: %s", wrong.text);
    put_number(row, BENCH_MIGRATE_TOTAL, result, "total_ns");
    put_number(row, BENCH_MIGRATE_DOWNTIME, result, "downtime_ns");
    put_number(row, BENCH_MIGRATE_SENT, result, "bytes_sent");
    put_number(row, BENCH_MIGRATE_PHASE_SETUP, result, "setup_ns");
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        put_number(row, phases[i].metric, json_object_get(result, "phases"), phases[i].key);
    bench_migrate_put(row, BENCH_MIGRATE_ROUNDS,
                      json_array_size(json_object_get(result, "rounds")));
    if (row->has[BENCH_MIGRATE_SENT] && row->value[BENCH_MIGRATE_TOTAL])
        bench_migrate_put(row, BENCH_MIGRATE_RATE,
                          (uint64_t)((double)row->value[BENCH_MIGRATE_SENT] * 1e9 /
                                     (double)row->value[BENCH_MIGRATE_TOTAL]));
    json_decref(result);
    return 0;
}

static uint64_t beyond(uint64_t bytes, uint64_t part)
{
    return bytes > part ? bytes - part : 0;
}

/* Huge pages of hugetlb are in no process's resident memory. */
static int take_usages(const struct watch *watch, struct bench_migrate_row *row, struct error *err)
{
    bool resident = watch->config->backing != MEMORY_HUGETLB;
    struct bench_usage source, target;
    int rc = bench_usage_of(watch->pair.source, &source, err);

    if (!rc)
        rc = bench_usage_of(watch->pair.target, &target, err);
    if (rc)
        return rc;
    bench_migrate_put(row, BENCH_MIGRATE_SOURCE_MEMORY,
                      beyond(source.peak_bytes, resident ? watch->source_ram : 0));
    bench_migrate_put(row, BENCH_MIGRATE_TARGET_MEMORY,
                      beyond(target.peak_bytes, target.shmem_bytes));
    bench_migrate_put(row, BENCH_MIGRATE_TARGET_RAM, bench_view_ram(watch->pair.target));
    bench_migrate_put(row, BENCH_MIGRATE_SOURCE_CPU, source.cpu_ns - watch->source_before.cpu_ns);
    bench_migrate_put(row, BENCH_MIGRATE_TARGET_CPU, target.cpu_ns - watch->target_before.cpu_ns);
    return 0;
}

/* What the guest would have done, less what it did. */
static void take_lost(const struct watch *watch, struct bench_migrate_row *row)
{
    double rate = (double)watch->calm_work / (double)watch->calm_ns;
    double lost = rate * (double)watch->ns - (double)watch->work;

    bench_migrate_put(row, BENCH_MIGRATE_BLACKOUT, bench_observer_blackout(&watch->observer));
    if (rate <= 0)
        return;
    bench_migrate_put(row, BENCH_MIGRATE_WORK_LOST, lost > 0 ? (uint64_t)lost : 0);
    bench_migrate_put(row, BENCH_MIGRATE_BROWNOUT, lost > 0 ? (uint64_t)(lost / rate) : 0);
}

int bench_migrate_guest(const struct bench_migrate_config *config, struct bench_migrate_row *row,
                        struct error *err)
{
    struct watch watch = {.config = config};
    int rc = bench_pair_start(&watch.pair, config, err);

    if (rc)
        return rc;
    (void)prctl(PR_SET_TIMERSLACK, 1);
    rc = watch_calm(&watch, err);
    if (!rc) {
        watch.source_ram = bench_view_ram(watch.pair.source);
        rc = bench_usage_of(watch.pair.source, &watch.source_before, err);
    }
    if (!rc)
        rc = bench_usage_of(watch.pair.target, &watch.target_before, err);
    if (!rc)
        rc = watch_move(&watch, err);
    if (!rc)
        rc = take_result(&watch, row, err);
    if (!rc)
        rc = take_usages(&watch, row, err);
    if (!rc)
        take_lost(&watch, row);
    bench_view_close(&watch.observer.source);
    bench_view_close(&watch.observer.target);
    bench_pair_end(&watch.pair);
    return rc;
}
