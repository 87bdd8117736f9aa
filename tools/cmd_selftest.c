/* SPDX-License-Identifier: MIT
 *
 * pageferry selftest: which dirty-log backends can be trusted on this host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/commands.h"
#include "tools/options.h"
#include "tools/selftest.h"
#include "tools/selftest_report.h"
#include "tools/server.h"
#include "tools/writer_vm.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"
#include "vmm/dirty_ring.h"

static const char help[] =
    "usage: pageferry selftest [OPTION…]\n\n"
    "Proves this host's dirty tracking before anyone trusts it: vCPUs and a device\n"
    "store while logging goes on and off, and what the pages hold tells which changes\n"
    "a log did not report. A table of OK, BROKEN (what was lost) and absent; exit\n"
    "status 1 where something is broken. Takes a few seconds.\n\n"
    "      --backend LIST   of get, clear, ring (default: all)\n"
    "  -c, --cpus N         with 1 and with N vCPUs, up to 16 (default: 2)\n"
    "      --quick          only what migrate tries before it trusts a backend\n"
    "      --json           one JSON object instead of the table\n";

struct selftest_options {
    bool backend[DIRTY_LOG_NBACKENDS];
    uint64_t ncpus;
    bool quick, json;
};

static int parse_backends(const char *list, struct selftest_options *options, struct error *err)
{
    char names[64];
    char *rest = names;
    const char *name;

    memset(options->backend, 0, sizeof(options->backend));
    if (strlen(list) >= sizeof(names))
        return error_set(err, EINVAL, "--backend: write a list of get, clear, ring");
    (void)snprintf(names, sizeof(names), "%s", list);
    while ((name = strsep(&rest, ","))) {
        enum dirty_log_backend backend = DIRTY_LOG_GET;
        int ret = dirty_log_backend_parse(name, &backend, err);

        if (ret) {
            error_prefix(err, "--backend");
            return ret;
        }
        options->backend[backend] = true;
    }
    return 0;
}

static enum options_result parse(int argc, char **argv, struct selftest_options *options)
{
    const char *backends = "get,clear,ring";
    const struct option_rule rules[] = {
        {"backend", 0, OPTION_STRING, &backends, 0},
        {"cpus", 'c', OPTION_NUMBER, &options->ncpus, WRITER_VM_MAX_CPUS},
        {"quick", 0, OPTION_FLAG, &options->quick, 0},
        {"json", 0, OPTION_FLAG, &options->json, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0},
    };
    struct error err = {""};
    char **operands;
    int noperands;
    enum options_result result = options_parse(argc, argv, rules, help, &operands, &noperands);

    if (result != OPTIONS_GO)
        return result;
    if (noperands)
        (void)error_set(&err, EINVAL, "selftest takes no operand: '%.100s' is left over",
                        operands[0]);
    else if (!options->ncpus)
        (void)error_set(&err, EINVAL, "--cpus: write a number from 1 to %d", WRITER_VM_MAX_CPUS);
    else if (parse_backends(backends, options, &err) == 0)
        return OPTIONS_GO;
    log_error("%s", err.text);
    return OPTIONS_BAD;
}

static void try_case(const struct kvm *kvm, struct selftest_outcome *outcome)
{
    uint64_t begin_ns = clock_now_ns();

    outcome->status = outcome->quick
                          ? selftest_quick(kvm, outcome->backend, DIRTY_RING_DEFAULT_ENTRIES, NULL,
                                           &outcome->verdict, &outcome->err)
                          : selftest_case(kvm, outcome->backend, outcome->kind, outcome->privilege,
                                          outcome->ncpus, &outcome->verdict, &outcome->err);
    outcome->ns = clock_now_ns() - begin_ns;
}

/* One case on every backend. */
static void try_row(const struct kvm *kvm, const struct selftest_options *options,
                    struct selftest_outcome outcome, struct selftest_report *report)
{
    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        outcome.backend = (enum dirty_log_backend)i;
        if (!options->backend[i])
            continue;
        selftest_report_begin(report, &outcome);
        try_case(kvm, &outcome);
        selftest_report_add(report, &outcome);
    }
    selftest_report_row(report, &outcome);
}

static void try_all(const struct kvm *kvm, const struct selftest_options *options,
                    struct selftest_report *report)
{
    const unsigned ncpus[] = {1, (unsigned)options->ncpus};
    struct selftest_outcome outcome = {.quick = options->quick, .ncpus = 1, .privilege = 3};

    if (options->quick) {
        try_row(kvm, options, outcome, report);
        return;
    }
    for (unsigned c = 0; c < (options->ncpus > 1 ? 2 : 1); c++) {
        for (unsigned down = 0; down <= 3; down += 3) {
            outcome.ncpus = ncpus[c];
            outcome.privilege = 3 - down;
            for (unsigned k = 0; k < SELFTEST_NKINDS; k++) {
                outcome.kind = (enum selftest_kind)k;
                try_row(kvm, options, outcome, report);
            }
        }
    }
}

int cmd_selftest(int argc, char **argv)
{
    struct selftest_options options = {.ncpus = 2};
    enum options_result result = parse(argc, argv, &options);
    struct selftest_report report;
    struct error err = {""};
    struct kvm kvm;
    bool good;

    if (result != OPTIONS_GO)
        return (int)result;
    if (kvm_open(&kvm, &err)) {
        log_error("%s", err.text);
        return SERVER_EXIT_FAILURE;
    }
    selftest_report_open(&report, options.backend, options.json);
    try_all(&kvm, &options, &report);
    good = selftest_report_close(&report);
    kvm_close(&kvm);
    return good ? 0 : SERVER_EXIT_FAILURE;
}
