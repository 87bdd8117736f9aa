/* SPDX-License-Identifier: MIT
 *
 * Which backend a migration trusts, by what a test of it said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include "tools/dirty_log_trust.h"

/* What the fake test answers: for each backend a verdict, or -errno. */
static int answer[DIRTY_LOG_NBACKENDS];
static unsigned ntests[DIRTY_LOG_NBACKENDS];

static int fake_test(const struct kvm *kvm, enum dirty_log_backend backend, uint32_t ring_entries,
                     const bool *cancelled, struct dirty_oracle_verdict *verdict, struct error *err)
{
    (void)kvm;
    (void)cancelled;
    (void)ring_entries;
    ntests[backend]++;
    if (answer[backend] < 0)
        return error_set(err, -answer[backend], "no room for a VM");
    memset(verdict, 0, sizeof(*verdict));
    verdict->result = (enum dirty_oracle_result)answer[backend];
    (void)snprintf(verdict->why, sizeof(verdict->why), "page 7 is gone");
    return 0;
}

static const struct dirty_log_vm vm = {.vm_fd = -1};

static int choose(struct dirty_log_trust *trust, bool chosen, enum dirty_log_backend *backend,
                  struct error *err)
{
    return dirty_log_trust_choose(trust, &vm, chosen, backend, err);
}

static int setup(void **state)
{
    static struct dirty_log_trust trust;

    memset(answer, 0, sizeof(answer)); /* all OK */
    memset(ntests, 0, sizeof(ntests));
    dirty_log_trust_init(&trust, fake_test, NULL);
    *state = &trust;
    return 0;
}

static void a_good_one_is_tested_once(void **state)
{
    enum dirty_log_backend backend = DIRTY_LOG_CLEAR;
    struct error err;

    assert_int_equal(choose(*state, false, &backend, &err), 0);
    assert_int_equal(choose(*state, true, &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_CLEAR);
    assert_int_equal(ntests[DIRTY_LOG_CLEAR], 1);
    assert_int_equal(ntests[DIRTY_LOG_GET], 0);
}

static void a_broken_one_is_left_alone(void **state)
{
    enum dirty_log_backend backend = DIRTY_LOG_CLEAR;
    struct error err;

    answer[DIRTY_LOG_CLEAR] = DIRTY_ORACLE_BROKEN;
    assert_int_equal(choose(*state, false, &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_GET);
    /* Also when it is asked again: nobody tests it anew in the hope of luck. */
    backend = DIRTY_LOG_CLEAR;
    assert_int_equal(choose(*state, false, &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_GET);
    assert_int_equal(ntests[DIRTY_LOG_CLEAR], 1);
}

static void nothing_that_works(void **state)
{
    enum dirty_log_backend backend = DIRTY_LOG_CLEAR;
    struct error err = {""};

    answer[DIRTY_LOG_CLEAR] = DIRTY_ORACLE_BROKEN;
    answer[DIRTY_LOG_GET] = DIRTY_ORACLE_BROKEN;
    assert_int_equal(choose(*state, false, &backend, &err), -EIO);
    assert_non_null(strstr(err.text, "--dirty-log clear"));
}

static void the_user_may_insist(void **state)
{
    enum dirty_log_backend backend = DIRTY_LOG_CLEAR;
    struct error err;

    answer[DIRTY_LOG_CLEAR] = DIRTY_ORACLE_BROKEN;
    assert_int_equal(choose(*state, true, &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_CLEAR);
}

static void no_verdict_is_no_reason(void **state)
{
    enum dirty_log_backend backend = DIRTY_LOG_CLEAR;
    struct error err;

    answer[DIRTY_LOG_CLEAR] = -ENOMEM;
    assert_int_equal(choose(*state, false, &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_CLEAR);
    /* It is made up for next time. */
    answer[DIRTY_LOG_CLEAR] = DIRTY_ORACLE_BROKEN;
    assert_int_equal(choose(*state, false, &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_GET);
}

static void cancelled(void **state)
{
    enum dirty_log_backend backend = DIRTY_LOG_CLEAR;
    struct error err;

    answer[DIRTY_LOG_CLEAR] = -ECANCELED;
    assert_int_equal(choose(*state, false, &backend, &err), -ECANCELED);
    answer[DIRTY_LOG_CLEAR] = DIRTY_ORACLE_OK;
    assert_int_equal(choose(*state, false, &backend, &err), 0);
    assert_int_equal(ntests[DIRTY_LOG_CLEAR], 2);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_good_one_is_tested_once), TEST(a_broken_one_is_left_alone), TEST(nothing_that_works),
        TEST(the_user_may_insist),       TEST(no_verdict_is_no_reason),    TEST(cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
