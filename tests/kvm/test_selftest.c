/* SPDX-License-Identifier: MIT
 *
 * What a migration asks before it trusts a backend, and hosts that lack one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kvm/test_writer.h"
#include "tools/selftest.h"

static void quick_form(void **state)
{
    const struct kvm *kvm = *state;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        enum dirty_log_backend backend = (enum dirty_log_backend)i;
        struct dirty_oracle_verdict verdict;
        struct error err = {""};

        if (selftest_quick(kvm, backend, 16384, NULL, &verdict, &err))
            fail_msg("%s", err.text);
        if (verdict.result == DIRTY_ORACLE_BROKEN)
            fail_msg("%s: %s", dirty_log_backend_name(backend), verdict.why);
        assert_int_equal(verdict.result == DIRTY_ORACLE_OK, dirty_log_supported(kvm, backend));
        if (verdict.result == DIRTY_ORACLE_OK)
            assert_true(verdict.stores >= 50 && verdict.reports >= 65);
        if (backend == DIRTY_LOG_RING && verdict.result == DIRTY_ORACLE_OK)
            assert_true(verdict.full_exits > 0);
    }
}

static void every_kind(void **state)
{
    const struct kvm *kvm = *state;

    for (unsigned kind = 0; kind < SELFTEST_NKINDS; kind++) {
        struct dirty_oracle_verdict verdict;
        struct error err = {""};

        if (selftest_case(kvm, DIRTY_LOG_GET, (enum selftest_kind)kind, 3, 1, &verdict, &err))
            fail_msg("%s", err.text);
        if (verdict.result != DIRTY_ORACLE_OK)
            fail_msg("%s: %s", selftest_kind_name((enum selftest_kind)kind), verdict.why);
    }
}

static void absent_backends(void **state)
{
    struct kvm old = *(const struct kvm *)*state;
    struct dirty_oracle_verdict verdict;

    old.dirty_ring_max = 0;
    old.manual_protect = 0;
    assert_int_equal(selftest_quick(&old, DIRTY_LOG_RING, 4096, NULL, &verdict, NULL), 0);
    assert_int_equal(verdict.result, DIRTY_ORACLE_ABSENT);
    assert_int_equal(selftest_case(&old, DIRTY_LOG_CLEAR, SELFTEST_SMALL, 3, 1, &verdict, NULL), 0);
    assert_int_equal(verdict.result, DIRTY_ORACLE_ABSENT);
    assert_int_equal(selftest_quick(&old, DIRTY_LOG_GET, 0, NULL, &verdict, NULL), 0);
    assert_int_equal(verdict.result, DIRTY_ORACLE_OK);
}

static void what_cannot_be_tried(void **state)
{
    struct dirty_oracle_verdict verdict;
    struct error err = {""};

    assert_true(selftest_case(*state, DIRTY_LOG_GET, SELFTEST_LARGE, 3, 99, &verdict, &err) < 0);
    assert_non_null(strstr(err.text, "99 vCPUs"));
}

static void cancelled(void **state)
{
    const bool yes = true;
    struct dirty_oracle_verdict verdict;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        enum dirty_log_backend backend = (enum dirty_log_backend)i;

        if (dirty_log_supported(*state, backend))
            assert_int_equal(selftest_quick(*state, backend, 4096, &yes, &verdict, NULL),
                             -ECANCELED);
    }
}

static void known_hosts(void **state)
{
    (void)state;
    assert_non_null(selftest_known_broken("kvm_pvm", DIRTY_LOG_RING));
    assert_null(selftest_known_broken("kvm_pvm", DIRTY_LOG_GET));
    assert_null(selftest_known_broken("kvm_pvm", DIRTY_LOG_CLEAR));
    assert_null(selftest_known_broken("kvm_intel", DIRTY_LOG_RING));
    assert_null(selftest_known_broken("unknown", DIRTY_LOG_RING));
}

int main(void)
{
    static struct kvm kvm;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(quick_form, &kvm),
        cmocka_unit_test_prestate(every_kind, &kvm),
        cmocka_unit_test_prestate(absent_backends, &kvm),
        cmocka_unit_test_prestate(what_cannot_be_tried, &kvm),
        cmocka_unit_test_prestate(cancelled, &kvm),
        cmocka_unit_test(known_hosts),
    };
    int result;

    test_writer_require_kvm();
    if (kvm_open(&kvm, NULL))
        return 1;
    result = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return result;
}
