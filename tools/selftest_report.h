/* SPDX-License-Identifier: MIT
 *
 * What `pageferry selftest` prints: a host line, a row per case, what was lost; or one JSON object
 * (see pageferry-selftest(1)). */
#ifndef TOOLS_SELFTEST_REPORT_H
#define TOOLS_SELFTEST_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "tools/host_facts.h"
#include "tools/selftest.h"

/* One case on one backend. */
struct selftest_outcome {
    enum dirty_log_backend backend;
    bool quick; /* the short form; kind is meaningless then */
    enum selftest_kind kind;
    unsigned privilege, ncpus;
    int status; /* 0, or -errno and err: it could not be tried */
    struct dirty_oracle_verdict verdict;
    struct error err;
    uint64_t ns;
};

enum selftest_standing { SELFTEST_ABSENT, SELFTEST_GOOD, SELFTEST_UNTRIED, SELFTEST_BAD };

struct selftest_report {
    struct host_facts host;
    const bool *wanted; /* backends; borrowed */
    bool json;
    json_t *cases;
    json_t *reasons; /* lines for people: what is broken, or could not be tried */
    enum selftest_standing standing[DIRTY_LOG_NBACKENDS]; /* the worst so far */
    const char *cell[DIRTY_LOG_NBACKENDS];                /* of this row */
};

void selftest_report_open(struct selftest_report *report, const bool *wanted, bool json);

/* On a terminal: what is being tried. */
void selftest_report_begin(const struct selftest_report *report,
                           const struct selftest_outcome *outcome);
void selftest_report_add(struct selftest_report *report, const struct selftest_outcome *outcome);
/* All backends of a case are through. */
void selftest_report_row(const struct selftest_report *report,
                         const struct selftest_outcome *outcome);

/* The last words; frees. False where something is broken or could not be tried. */
bool selftest_report_close(struct selftest_report *report);

#endif
