/* SPDX-License-Identifier: MIT
 *
 * pageferry bench pause: what it is worth to signal all vCPUs first and to wait then. Both ways
 * stop the same vCPUs, which store to memory in ring 3 without ever leaving the guest by
 * themselves, by turns; the first pair warms up. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "tools/bench_progress.h"
#include "tools/bench_samples.h"
#include "tools/commands.h"
#include "tools/host_facts.h"
#include "tools/options.h"
#include "tools/server.h"
#include "tools/writer_vm.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"

#define DEFAULT_CPUS   8
#define DEFAULT_REPEAT 51
#define MAX_REPEAT     100000
#define PAGES_PER_CPU  16
/* All vCPUs have got so far between two pauses: none is still on its way back into the guest. */
#define STORES_BETWEEN 1000
/* Ratios are kept as whole numbers of this part. */
#define RATIO_UNIT 1000000u

static const char help[] =
    "usage: pageferry bench pause [OPTION…]\n\n"
    "Times how long it takes to stop busy vCPUs: all signalled, then all awaited, as\n"
    "a pause does it; and beside it, by turns, one after the other.\n\n"
    "      --cpus N     vCPUs, 2 to 16 (default 8)\n"
    "      --repeat N   pairs that count (default 51)\n"
    "      --json       one JSON object instead of the table\n";

enum { TOGETHER, IN_TURN, RATIO, NMETRICS };

static const char *const metric_names[NMETRICS] = {"together_ns", "in_turn_ns", "ratio"};

struct bench_pause {
    uint64_t cpus, repeat;
    bool json;
    struct bench_samples metric[NMETRICS];
    struct bench_summary summary[NMETRICS];
};

static int pause_pair(struct writer_vm *vm, bool in_turn_first, uint64_t ns[2], struct error *err)
{
    int rc = 0;

    for (unsigned i = 0; !rc && i < 2; i++) {
        bool in_turn = (i == 0) == in_turn_first;

        rc = writer_vm_await(vm, STORES_BETWEEN, err);
        if (!rc)
            rc = writer_vm_pause(vm, in_turn, &ns[in_turn ? IN_TURN : TOGETHER], err);
    }
    return rc;
}

static int measure(struct bench_pause *bench, struct writer_vm *vm, struct error *err)
{
    int rc = 0;

    for (uint64_t i = 0; !rc && i <= bench->repeat; i++) {
        uint64_t ns[2] = {0};

        bench_progress("pair %" PRIu64 " of %" PRIu64, i, bench->repeat);
        rc = pause_pair(vm, i % 2 == 1, ns, err);
        if (rc || i == 0)
            continue;
        bench_samples_add(&bench->metric[TOGETHER], ns[TOGETHER]);
        bench_samples_add(&bench->metric[IN_TURN], ns[IN_TURN]);
        bench_samples_add(&bench->metric[RATIO],
                          (uint64_t)(bench_per(ns[TOGETHER], ns[IN_TURN]) * RATIO_UNIT));
    }
    bench_progress_end();
    return rc;
}

/* Each vCPU roams pages of its own. */
static int set_busy(const struct bench_pause *bench, struct writer_vm *vm, struct error *err)
{
    int rc = 0;

    for (unsigned cpu = 0; !rc && cpu < bench->cpus; cpu++) {
        gpa_t pages[PAGES_PER_CPU];

        for (unsigned i = 0; i < PAGES_PER_CPU; i++)
            pages[i] = writer_vm_gpa(vm, 0, (uint64_t)cpu * PAGES_PER_CPU + i);
        rc = writer_vm_set_list(vm, cpu, pages, PAGES_PER_CPU, err);
    }
    if (!rc)
        rc = writer_vm_hold(vm, false, err);
    if (!rc)
        rc = writer_vm_roam(vm, err);
    return rc;
}

static int run_vm(struct bench_pause *bench, const struct kvm *kvm, struct error *err)
{
    const uint64_t npages = bench->cpus * PAGES_PER_CPU;
    const struct writer_vm_config config = {.npages = &npages,
                                            .nslots = 1,
                                            .backing = MEMORY_ANON,
                                            .ncpus = (unsigned)bench->cpus,
                                            .privilege = 3,
                                            .max_list = PAGES_PER_CPU};
    struct writer_vm *vm;
    int rc = writer_vm_open(&vm, kvm, &config, err);

    if (rc)
        return rc;
    rc = set_busy(bench, vm, err);
    if (!rc)
        rc = measure(bench, vm, err);
    writer_vm_close(vm);
    return rc;
}

static void print_table(const struct bench_pause *bench)
{
    static const char *const titles[NMETRICS] = {"together, µs", "one after the other, µs",
                                                 "together / one after the other"};
    struct host_facts facts;
    char host[1024];

    host_facts_read(&facts);
    host_facts_print(&facts, host, sizeof(host));
    printf("%sPausing %" PRIu64 " busy vCPUs, %" PRIu64 " pairs:\n\n%-32s %10s %10s %10s\n", host,
           bench->cpus, bench->repeat, "", "median", "min", "max");
    for (unsigned i = 0; i < NMETRICS; i++) {
        const struct bench_summary *summary = &bench->summary[i];
        double unit = i == RATIO ? RATIO_UNIT : CLOCK_NS_PER_US;
        int decimals = i == RATIO ? 3 : 1;
        /* A µ is two bytes, which printf() pads as two columns. */
        int width = i == RATIO ? 32 : 33;

        printf("%-*s %10.*f %10.*f %10.*f\n", width, titles[i], decimals,
               (double)summary->median / unit, decimals, (double)summary->min / unit, decimals,
               (double)summary->max / unit);
    }
}

static json_t *summary_json(const struct bench_summary *summary)
{
    return json_pack("{s:I, s:I, s:I}", "min", (json_int_t)summary->min, "median",
                     (json_int_t)summary->median, "max", (json_int_t)summary->max);
}

static json_t *ratio_json(const struct bench_summary *summary)
{
    return json_pack("{s:f, s:f, s:f}", "min", bench_per(summary->min, RATIO_UNIT), "median",
                     bench_per(summary->median, RATIO_UNIT), "max",
                     bench_per(summary->max, RATIO_UNIT));
}

static void print_json(const struct bench_pause *bench)
{
    struct host_facts facts;
    json_t *object;

    host_facts_read(&facts);
    object = json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:o}", "bench", "pause", "version",
                       PAGEFERRY_VERSION, "host", host_facts_json(&facts), "cpus",
                       (json_int_t)bench->cpus, "repeat", (json_int_t)bench->repeat,
                       metric_names[TOGETHER], summary_json(&bench->summary[TOGETHER]),
                       metric_names[IN_TURN], summary_json(&bench->summary[IN_TURN]),
                       metric_names[RATIO], ratio_json(&bench->summary[RATIO]));
    (void)json_dumpf(object, stdout, JSON_INDENT(1));
    printf("\n");
    json_decref(object);
}

static int run(struct bench_pause *bench)
{
    struct error err = {""};
    struct kvm kvm;
    int rc = 0;

    for (unsigned i = 0; !rc && i < NMETRICS; i++)
        rc = bench_samples_init(&bench->metric[i], (unsigned)bench->repeat);
    if (rc)
        (void)error_set(&err, -rc, "no memory for the measurements");
    else
        rc = kvm_open(&kvm, &err);
    if (!rc) {
        rc = run_vm(bench, &kvm, &err);
        kvm_close(&kvm);
    }
    if (rc)
        log_error("%s", err.text);
    for (unsigned i = 0; i < NMETRICS; i++) {
        bench->summary[i] = bench_samples_summary(&bench->metric[i]);
        bench_samples_free(&bench->metric[i]);
    }
    if (rc)
        return SERVER_EXIT_FAILURE;
    if (bench->json)
        print_json(bench);
    else
        print_table(bench);
    return 0;
}

int bench_pause(int argc, char **argv)
{
    struct bench_pause bench = {.cpus = DEFAULT_CPUS, .repeat = DEFAULT_REPEAT};
    const struct option_rule rules[] = {
        {"cpus", 0, OPTION_NUMBER, &bench.cpus, WRITER_VM_MAX_CPUS},
        {"repeat", 0, OPTION_NUMBER, &bench.repeat, MAX_REPEAT},
        {"json", 0, OPTION_FLAG, &bench.json, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0},
    };
    char **operands;
    int noperands;
    enum options_result result = options_parse(argc, argv, rules, help, &operands, &noperands);

    if (result != OPTIONS_GO)
        return (int)result;
    if (noperands)
        log_error("bench pause takes no operand: '%s' is left over", operands[0]);
    else if (bench.cpus < 2)
        log_error("--cpus %" PRIu64 ": one after the other takes 2 at least", bench.cpus);
    else if (!bench.repeat)
        log_error("--repeat 0 measures nothing: 1 is the least");
    else
        return run(&bench);
    return SERVER_EXIT_USAGE;
}
