/* SPDX-License-Identifier: MIT */
#include "tools/bench_dirty.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_dirty_lane.h"
#include "tools/commands.h"
#include "tools/server.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/log.h"

static int add_lane(struct bench_dirty *bench, const struct bench_dirty_lane *lane,
                    struct error *err)
{
    if (bench->nlanes == BENCH_DIRTY_MAX_LANES)
        return error_set(err, EINVAL,
                         "more than %d combinations of --backend, --chunk, --clear-ranges and "
                         "--enable: choose fewer",
                         BENCH_DIRTY_MAX_LANES);
    bench->lane[bench->nlanes++] = *lane;
    return 0;
}

/* `clear` has a lane for every chunk and kind of ranges, the others for neither. */
static int add_lanes(struct bench_dirty *bench, enum dirty_log_backend backend, uint64_t npages,
                     struct error *err)
{
    const struct bench_dirty_config *config = bench->config;
    bool all = backend == DIRTY_LOG_CLEAR && !config->touched.count;
    struct bench_dirty_lane lane = {
        .backend = backend, .npages = npages, .chunk = config->chunk.value[0]};
    int result = 0;

    if (!all)
        return add_lane(bench, &lane, err);
    for (unsigned i = 0; !result && i < config->chunk.count; i++) {
        for (unsigned j = 0; !result && j < BENCH_DIRTY_NRANGES; j++) {
            lane.chunk = config->chunk.value[i];
            lane.ranges = (enum dirty_log_ranges)j;
            if (config->ranges[j])
                result = add_lane(bench, &lane, err);
        }
    }
    return result;
}

static int choose_lanes(struct bench_dirty *bench, struct error *err)
{
    const struct bench_numbers *touched = &bench->config->touched;
    int result = 0;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        enum dirty_log_backend backend = (enum dirty_log_backend)i;

        if (!bench->config->backend[i])
            continue;
        for (unsigned j = 0; !result && j < touched->count; j++)
            result = add_lanes(bench, backend, touched->value[j] / MEMORY_PAGE_BYTES, err);
        if (!result && !touched->count)
            result = add_lanes(bench, backend, bench->config->npages, err);
    }
    return result;
}

static int init_lane(struct bench_dirty *bench, struct bench_dirty_lane *lane)
{
    const struct bench_dirty_config *config = bench->config;
    int result = bench_samples_init(&lane->enable, config->iterations + 1);

    if (!result)
        result = bench_samples_init(&lane->enable_ioctl, config->iterations + 1);
    if (!result)
        result = bench_samples_init(&lane->disable, config->iterations + 1);
    if (result || !bench->nrows)
        return result;
    lane->words = calloc(config->nslots, sizeof(lane->words[0]));
    lane->row = calloc(bench->nrows, sizeof(lane->row[0]));
    if (!lane->words || !lane->row)
        return -ENOMEM;
    for (unsigned i = 0; i < bench->nrows; i++) {
        struct bench_dirty_row *row = &lane->row[i];

        row->dirty = config->dirty.value[i % config->dirty.count];
        row->pages = row->dirty * config->nslots;
        row->running = i >= config->dirty.count;
        for (unsigned j = 0; !result && j < BENCH_NMETRICS; j++)
            result = bench_samples_init(&row->metric[j], config->iterations);
    }
    return result;
}

static uint64_t most_pages(const struct bench_dirty_config *config)
{
    if (config->touched.count)
        return config->touched.value[config->touched.count - 1] / MEMORY_PAGE_BYTES;
    return config->npages;
}

static int allocate(struct bench_dirty *bench, struct error *err)
{
    uint64_t npages = most_pages(bench->config);
    int result = 0;

    bench->pages = calloc(npages, sizeof(uint64_t));
    bench->wanted = calloc(bitmap_words(npages), sizeof(uint64_t));
    bench->list = calloc(npages * bench->config->nslots, sizeof(gpa_t));
    if (!bench->pages || !bench->wanted || !bench->list)
        result = -ENOMEM;
    for (unsigned i = 0; !result && i < bench->nlanes; i++)
        result = init_lane(bench, &bench->lane[i]);
    return result ? error_set(err, -result, "no memory for the measurements") : 0;
}

/* The CPUs that this process may use; the measuring thread gets the first. */
static int choose_cpus(struct bench_dirty *bench, struct error *err)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        return error_set(err, errno, "--pin: sched_getaffinity: %s", strerror(errno));
    for (int cpu = 0; cpu < CPU_SETSIZE && bench->ncpus < BENCH_DIRTY_MAX_CPUS; cpu++) {
        if (CPU_ISSET((size_t)cpu, &allowed))
            bench->cpu[bench->ncpus++] = cpu;
    }
    if (bench->ncpus < 2)
        return error_set(err, EINVAL,
                         "--pin: it takes 2 CPUs, and this process may use only 1 (taskset -p)");
    return 0;
}

static int pin_self(const struct bench_dirty *bench, struct error *err)
{
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET((size_t)bench->cpu[0], &first);
    if (sched_setaffinity(0, sizeof(first), &first))
        return error_set(err, errno, "--pin: sched_setaffinity: %s", strerror(errno));
    return 0;
}

int bench_dirty_init(struct bench_dirty *bench, const struct bench_dirty_config *config,
                     const struct kvm *kvm, struct error *err)
{
    int result;

    *bench = (struct bench_dirty){.config = config, .kvm = kvm};
    if (!config->touched.count)
        bench->nrows = config->dirty.count * (config->also_running ? 2 : 1);
    host_facts_read(&bench->host);
    result = choose_lanes(bench, err);
    if (!result)
        result = bench_dirty_check_memory(bench, err);
    if (!result)
        result = allocate(bench, err);
    if (!result && config->pin)
        result = choose_cpus(bench, err);
    if (!result && config->pin)
        result = pin_self(bench, err);
    return result;
}

void bench_dirty_free(struct bench_dirty *bench)
{
    for (unsigned i = 0; i < bench->nlanes; i++) {
        struct bench_dirty_lane *lane = &bench->lane[i];

        bench_dirty_lane_close(lane);
        for (unsigned j = 0; lane->row && j < bench->nrows; j++) {
            for (unsigned k = 0; k < BENCH_NMETRICS; k++)
                bench_samples_free(&lane->row[j].metric[k]);
        }
        free(lane->row);
        free(lane->words);
        bench_samples_free(&lane->enable);
        bench_samples_free(&lane->enable_ioctl);
        bench_samples_free(&lane->disable);
    }
    free(bench->pages);
    free(bench->wanted);
    free(bench->list);
}

static int report(const struct bench_dirty *bench, struct error *err)
{
    json_t *object;
    char *dump;

    if (bench->config->format == BENCH_FORMAT_TEXT)
        bench_dirty_print(bench);
    if (bench->config->format == BENCH_FORMAT_CSV)
        bench_dirty_print_csv(bench);
    if (bench->config->format != BENCH_FORMAT_JSON)
        return 0;
    object = bench_dirty_json(bench);
    dump = object ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    if (!dump)
        return error_set(err, ENOMEM, "no memory for the report");
    puts(dump);
    free(dump);
    return 0;
}

static int run(const struct bench_dirty_config *config, const struct kvm *kvm, struct error *err)
{
    struct bench_dirty bench;
    int result = bench_dirty_init(&bench, config, kvm, err);

    /* Before the long part: a file that does not fit is told at once. */
    if (!result && config->compare)
        result = bench_dirty_compare(&bench, config->compare, err);
    if (!result)
        result = bench_dirty_run(&bench, err);
    if (!result) {
        bench_dirty_summarize(&bench);
        result = report(&bench, err);
    }
    bench_dirty_free(&bench);
    return result;
}

int bench_dirty_log(int argc, char **argv)
{
    struct bench_dirty_config config;
    struct kvm kvm;
    struct error err = {""};
    enum options_result parsed = bench_dirty_options(argc, argv, &config);
    int result;

    if (parsed != OPTIONS_GO)
        return (int)parsed;
    result = kvm_open(&kvm, &err);
    if (!result) {
        result = bench_dirty_check(&config, &kvm, &err);
        if (!result)
            result = run(&config, &kvm, &err);
        kvm_close(&kvm);
    }
    if (result)
        log_error("%s", err.text);
    return result ? SERVER_EXIT_FAILURE : 0;
}
