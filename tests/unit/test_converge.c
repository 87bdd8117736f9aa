/* SPDX-License-Identifier: MIT
 *
 * The pure calculations of the source: when to switch over, and how fast to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "migrate/converge.h"
#include "migrate/pace.h"
#include "vmm/base/clock.h"

#define MS CLOCK_NS_PER_MS

struct decision_case {
    struct converge_input input;
    uint64_t predicted_ns;
    enum converge_decision decision;
};

static const struct decision_case cases[] = {
    /* pending, bandwidth, fixed, limit */
    {{0, 0, 2 * MS, 50 * MS}, 2 * MS, CONVERGE_SWITCH_OVER},
    {{0, 0, 90 * MS, 50 * MS}, 90 * MS, CONVERGE_SWITCH_OVER},
    {{1, 0, 2 * MS, 50 * MS}, UINT64_MAX, CONVERGE_ANOTHER_ROUND},
    {{48000000, 1000000000, 2 * MS, 50 * MS}, 50 * MS, CONVERGE_SWITCH_OVER},
    {{48000001, 1000000000, 2 * MS, 50 * MS}, 50 * MS + 1, CONVERGE_ANOTHER_ROUND},
    {{49000000, 1000000000, 2 * MS, 50 * MS}, 51 * MS, CONVERGE_ANOTHER_ROUND},
    {{4096, 1, 0, 50 * MS}, 4096 * CLOCK_NS_PER_SEC, CONVERGE_ANOTHER_ROUND},
    {{UINT64_MAX, 1, 0, UINT64_MAX - 1}, UINT64_MAX, CONVERGE_ANOTHER_ROUND},
    {{4096, 1000000000, UINT64_MAX, 50 * MS}, UINT64_MAX, CONVERGE_ANOTHER_ROUND},
};

static void test_decisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(converge_predict_ns(&cases[i].input), cases[i].predicted_ns);
        assert_int_equal(converge_decide(&cases[i].input), cases[i].decision);
    }
}

/* A sender that does as it is told, with a clock of its own: in any whole second no more than the
 * limit and what it may catch up. */
static void test_pace_keeps_the_limit(void **state)
{
    const uint64_t limit = 10u << 20;
    uint64_t now = 5 * CLOCK_NS_PER_SEC, sent = 0, batch;
    struct pace pace;

    (void)state;
    pace_init(&pace, limit, now);
    batch = pace_batch_bytes(&pace, 4u << 20);
    assert_true(batch >= 4096 && batch <= limit / 20);
    while (now < 15 * CLOCK_NS_PER_SEC) {
        now += pace_wait_ns(&pace, now);
        pace_spend(&pace, batch, now);
        sent += batch;
        now += 100000; /* the send itself */
    }
    assert_true(sent <= 10 * limit + limit / 20);
    assert_true(sent >= 10 * limit - limit / 20);
}

static void test_pace_forgives_only_a_little(void **state)
{
    struct pace pace;
    uint64_t now = CLOCK_NS_PER_SEC;
    uint64_t sent = 0;

    (void)state;
    pace_init(&pace, 1u << 20, now);
    now += 60 * CLOCK_NS_PER_SEC; /* nothing sent for a minute */
    while (pace_wait_ns(&pace, now) == 0) {
        pace_spend(&pace, 4096, now);
        sent += 4096;
    }
    assert_true(sent <= (1u << 20) / 20);
}

static void test_unlimited(void **state)
{
    struct pace pace;

    (void)state;
    pace_init(&pace, 0, 0);
    pace_spend(&pace, UINT64_MAX, 0);
    assert_int_equal(pace_wait_ns(&pace, 0), 0);
    assert_int_equal(pace_batch_bytes(&pace, 777), 777);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_pace_keeps_the_limit),
        cmocka_unit_test(test_pace_forgives_only_a_little),
        cmocka_unit_test(test_unlimited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
