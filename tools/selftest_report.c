/* SPDX-License-Identifier: MIT */
#include "tools/selftest_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/json_text.h"

#define CASE_COLUMNS 50
#define CELL_COLUMNS 8
#define CLEAR_LINE   "\r\033[K"

static void describe(const struct selftest_outcome *outcome, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "ring %u, %u vCPU%s, %s", outcome->privilege, outcome->ncpus,
                   outcome->ncpus > 1 ? "s" : "",
                   outcome->quick ? "the short form" : selftest_kind_text(outcome->kind));
}

static void print_cells(const struct selftest_report *report, const char *first,
                        const char *const *cells)
{
    int width = CASE_COLUMNS; /* of what stands before the next cell */
    const char *before = first;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        if (!report->wanted[i])
            continue;
        printf("%-*s", width, before);
        before = cells[i];
        width = CELL_COLUMNS;
    }
    puts(before);
    (void)fflush(stdout);
}

void selftest_report_open(struct selftest_report *report, const bool *wanted, bool json)
{
    char host[HOST_NFACTS * HOST_FACT_BYTES];
    const char *names[DIRTY_LOG_NBACKENDS];

    memset(report, 0, sizeof(*report));
    report->wanted = wanted;
    report->json = json;
    report->cases = json_array();
    report->reasons = json_array();
    host_facts_read(&report->host);
    if (json)
        return;
    host_facts_print(&report->host, host, sizeof(host));
    puts(host);
    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++)
        names[i] = dirty_log_backend_name((enum dirty_log_backend)i);
    print_cells(report, "guest", names);
}

void selftest_report_begin(const struct selftest_report *report,
                           const struct selftest_outcome *outcome)
{
    char text[96];

    if (report->json || !isatty(STDERR_FILENO))
        return;
    describe(outcome, text, sizeof(text));
    (void)fprintf(stderr, CLEAR_LINE "%s: %s", text, dirty_log_backend_name(outcome->backend));
}

static enum selftest_standing standing_of(const struct selftest_outcome *outcome)
{
    if (outcome->status)
        return SELFTEST_UNTRIED;
    if (outcome->verdict.result == DIRTY_ORACLE_BROKEN)
        return SELFTEST_BAD;
    return outcome->verdict.result == DIRTY_ORACLE_OK ? SELFTEST_GOOD : SELFTEST_ABSENT;
}

static const char *standing_name(enum selftest_standing standing)
{
    static const char *const names[] = {[SELFTEST_ABSENT] = "absent",
                                        [SELFTEST_GOOD] = "ok",
                                        [SELFTEST_UNTRIED] = "untried",
                                        [SELFTEST_BAD] = "broken"};

    return names[standing];
}

static const char *reason_of(const struct selftest_outcome *outcome)
{
    return outcome->status ? outcome->err.text : outcome->verdict.why;
}

static json_t *to_json(const struct selftest_outcome *outcome)
{
    const struct dirty_oracle_verdict *v = &outcome->verdict;
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:I}", "backend",
                  dirty_log_backend_name(outcome->backend), "kind",
                  outcome->quick ? "quick" : selftest_kind_name(outcome->kind), "guest_ring",
                  (int)outcome->privilege, "vcpus", (int)outcome->ncpus, "result",
                  standing_name(standing_of(outcome)), "ns", (json_int_t)outcome->ns, "stores",
                  (json_int_t)v->stores, "reports", (json_int_t)v->reports, "ring_full_exits",
                  (json_int_t)v->full_exits, "lost_pages", (json_int_t)v->lost_pages);

    if (v->lost_pages)
        (void)json_object_set_new(object, "first_lost",
                                  json_pack("{s:i, s:I, s:i}", "slot", (int)v->slot, "page",
                                            (json_int_t)v->page, "round", (int)v->round));
    if (reason_of(outcome)[0])
        (void)json_object_set_new(object, "reason", json_text(reason_of(outcome)));
    return object;
}

void selftest_report_add(struct selftest_report *report, const struct selftest_outcome *outcome)
{
    static const char *const cells[] = {[SELFTEST_ABSENT] = "absent",
                                        [SELFTEST_GOOD] = "OK",
                                        [SELFTEST_UNTRIED] = "untried",
                                        [SELFTEST_BAD] = "BROKEN"};
    enum selftest_standing standing = standing_of(outcome);
    char text[96];

    report->cell[outcome->backend] = cells[standing];
    if (standing > report->standing[outcome->backend])
        report->standing[outcome->backend] = standing;
    (void)json_array_append_new(report->cases, to_json(outcome));
    if (standing < SELFTEST_UNTRIED)
        return;
    describe(outcome, text, sizeof(text));
    (void)json_array_append_new(
        report->reasons, json_sprintf("%s; %s: %s", text, dirty_log_backend_name(outcome->backend),
                                      reason_of(outcome)));
}

void selftest_report_row(const struct selftest_report *report,
                         const struct selftest_outcome *outcome)
{
    char text[96];

    if (report->json)
        return;
    if (isatty(STDERR_FILENO))
        (void)fputs(CLEAR_LINE, stderr);
    describe(outcome, text, sizeof(text));
    print_cells(report, text, report->cell);
}

/* What a migration would rather know first. */
static const char *known(const struct selftest_report *report)
{
    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        const char *line = report->wanted[i] ? selftest_known_broken(report->host.text[HOST_KVM],
                                                                     (enum dirty_log_backend)i)
                                             : NULL;

        if (line)
            return line;
    }
    return NULL;
}

static void print_json(const struct selftest_report *report)
{
    json_t *backends = json_object();
    json_t *object;
    const char *line = known(report);
    char *text;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        if (report->wanted[i])
            (void)json_object_set_new(backends, dirty_log_backend_name((enum dirty_log_backend)i),
                                      json_string(standing_name(report->standing[i])));
    }
    object = json_pack("{s:o, s:o, s:O}", "host", host_facts_json(&report->host), "backends",
                       backends, "cases", report->cases);
    if (line)
        (void)json_object_set_new(object, "known", json_text(line));
    text = json_dumps(object, JSON_INDENT(2));
    puts(text ? text : "{}");
    free(text);
    json_decref(object);
}

static void print_summary(const struct selftest_report *report)
{
    const char *line = known(report);
    const json_t *reason;
    size_t index;

    puts("");
    json_array_foreach(report->reasons, index, reason) puts(json_string_value(reason));
    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        const char *name = dirty_log_backend_name((enum dirty_log_backend)i);

        if (report->wanted[i])
            printf("%-6s %s\n", name, standing_name(report->standing[i]));
    }
    if (line)
        printf("known: %s\n", line);
}

bool selftest_report_close(struct selftest_report *report)
{
    bool good = true;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++)
        good = good && report->standing[i] < SELFTEST_UNTRIED;
    if (report->json)
        print_json(report);
    else
        print_summary(report);
    json_decref(report->cases);
    json_decref(report->reasons);
    return good;
}
