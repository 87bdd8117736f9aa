/* SPDX-License-Identifier: MIT
 *
 * No backend loses a page, whoever stores: the oracle's verdict over backends, rings, vCPUs and
 * slot sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kvm/test_times.h"
#include "tests/kvm/test_writer.h"
#include "tools/dirty_oracle.h"

struct layout {
    enum memory_backing backing;
    unsigned nslots;
    uint64_t npages[MEMORY_MAX_REGIONS];
};

static const struct layout layouts[] = {
    {MEMORY_ANON, 1, {1}},        {MEMORY_ANON, 1, {63}},
    {MEMORY_ANON, 1, {64}},       {MEMORY_ANON, 1, {65}},
    {MEMORY_THP, 1, {4096 + 37}}, {MEMORY_MEMFD, 5, {1, 63, 64, 65, 1024 + 37}},
};

#define NLAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

struct setting {
    char name[64];
    enum dirty_log_backend backend;
    unsigned privilege, ncpus;
    const struct layout *layout;
};

/* KVM that emulates ring 0 may run over a dirty ring there: it must be noticed, by the log itself,
 * before a page is missed. */
static bool may_run_over(const struct setting *s)
{
    return s->backend == DIRTY_LOG_RING && !s->privilege &&
           access("/sys/module/kvm_pvm", F_OK) == 0;
}

static void nothing_is_missed(void **state)
{
    const struct setting *s = *state;
    const struct dirty_oracle_case test = {
        .log = {.backend = s->backend},
        .backing = s->layout->backing,
        .privilege = s->privilege,
        .ncpus = s->ncpus,
        .npages = s->layout->npages,
        .nslots = s->layout->nslots,
        .ring_entries = TEST_WRITER_RING,
        .campaigns = 2,
        .rounds = test_times(8),
        .stores = test_times(60),
        .sweeps = 2,
    };
    struct dirty_oracle_verdict verdict;
    struct error err = {""};
    struct kvm kvm;
    int result;

    assert_int_equal(kvm_open(&kvm, NULL), 0);
    result = dirty_oracle_run(&kvm, &test, &verdict, &err);
    kvm_close(&kvm);
    if (result)
        fail_msg("%s", err.text);
    print_message("%lu stores, %lu reports, %lu times a ring was full\n",
                  (unsigned long)verdict.stores, (unsigned long)verdict.reports,
                  (unsigned long)verdict.full_exits);
    if (may_run_over(s) && !verdict.lost_pages && strstr(verdict.why, "was run over")) {
        print_message("noticed: %s\n", verdict.why);
        return;
    }
    if (verdict.result != DIRTY_ORACLE_OK)
        fail_msg("%s", verdict.why);
    /* More than a ring holds was swept. */
    if (s->backend == DIRTY_LOG_RING && s->layout->npages[0] > TEST_WRITER_RING)
        assert_true(verdict.full_exits > 0);
}

int main(void)
{
    static struct setting settings[3 * 2 * 2 * NLAYOUTS];
    struct CMUnitTest tests[3 * 2 * 2 * NLAYOUTS];
    size_t n = 0;

    test_writer_require_kvm();
    for (unsigned b = 0; b < DIRTY_LOG_NBACKENDS; b++) {
        if (!test_writer_has((enum dirty_log_backend)b))
            continue;
        for (unsigned i = 0; i < 4 * NLAYOUTS; i++, n++) {
            struct setting *s = &settings[n];

            s->backend = (enum dirty_log_backend)b;
            s->layout = &layouts[i / 4];
            s->privilege = i % 2 ? 0 : 3;
            s->ncpus = 1 + i / 2 % 2;
            (void)snprintf(s->name, sizeof(s->name), "%s ring %u, %u vCPU, %u slots of %u… pages",
                           dirty_log_backend_name(s->backend), s->privilege, s->ncpus,
                           s->layout->nslots, (unsigned)s->layout->npages[0]);
            tests[n] = (struct CMUnitTest){
                .name = s->name, .test_func = nothing_is_missed, .initial_state = s};
        }
    }
    return _cmocka_run_group_tests("oracle", tests, n, NULL, NULL);
}
