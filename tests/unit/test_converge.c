/* SPDX-License-Identifier: MIT
 *
 * The pure calculations of the source: when to switch over, and how fast to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/converge.h"
#include "migrate/pace.h"
#include "vmm/base/clock.h"

#define MS CLOCK_NS_PER_MS

struct decision_case {
    uint64_t pending, bandwidth, fixed_ns, limit_ns;
    uint64_t predicted_ns;
    enum converge_decision decision;
};

static const struct decision_case cases[] = {
    {0, 0, 2 * MS, 50 * MS, 2 * MS, CONVERGE_SWITCH_OVER},
    {0, 0, 90 * MS, 50 * MS, 90 * MS, CONVERGE_SWITCH_OVER},
    {1, 0, 2 * MS, 50 * MS, UINT64_MAX, CONVERGE_ANOTHER_ROUND},
    {48000000, 1000000000, 2 * MS, 50 * MS, 50 * MS, CONVERGE_ANOTHER_ROUND},
    {1999999, 1000000000, 2 * MS, 50 * MS, 3999999, CONVERGE_SWITCH_OVER},
    {48000001, 1000000000, 2 * MS, 50 * MS, 50 * MS + 1, CONVERGE_ANOTHER_ROUND},
    {49000000, 1000000000, 2 * MS, 50 * MS, 51 * MS, CONVERGE_ANOTHER_ROUND},
    {4096, 1, 0, 50 * MS, 4096 * CLOCK_NS_PER_SEC, CONVERGE_ANOTHER_ROUND},
    {UINT64_MAX, 1, 0, UINT64_MAX - 1, UINT64_MAX, CONVERGE_ANOTHER_ROUND},
    {4096, 1000000000, UINT64_MAX, 50 * MS, UINT64_MAX, CONVERGE_ANOTHER_ROUND},
};

static void test_decisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct converge_policy policy = {.limit_ns = cases[i].limit_ns};
        struct converge_input input = {.pending_bytes = cases[i].pending,
                                       .bandwidth = cases[i].bandwidth,
                                       .fixed_ns = cases[i].fixed_ns};
        struct converge_history history = {.nrounds = 0};
        struct converge_verdict verdict = converge_decide(&policy, &input, &history);

        assert_int_equal(verdict.predicted_ns, cases[i].predicted_ns);
        assert_int_equal(verdict.decision, cases[i].decision);
    }
}

/* A guest that leaves so much after each round, a link of 1 GB/s, a limit that is out of reach. */
struct course {
    const char *name;
    struct converge_policy policy;
    unsigned nrounds;
    struct {
        uint64_t pending_mb, elapsed_ms;
        enum converge_reason reason;
        unsigned throttle;
    } round[10];
};

static const struct course courses[] = {
    {"no timeout: for ever",
     {.limit_ns = MS},
     3,
     {{900, 1000, CONVERGE_OVER_LIMIT, 0},
      {900, 100000, CONVERGE_OVER_LIMIT, 0},
      {900, 900000, CONVERGE_OVER_LIMIT, 0}}},
    {"cancel",
     {.limit_ns = MS, .timeout_ns = 500 * MS},
     3,
     {{900, 100, CONVERGE_OVER_LIMIT, 0},
      {500, 499, CONVERGE_OVER_LIMIT, 0},
      {400, 500, CONVERGE_TIMED_OUT, 0}}},
    {"converged at the last moment",
     {.limit_ns = MS, .timeout_ns = 500 * MS},
     2,
     {{900, 100, CONVERGE_OVER_LIMIT, 0}, {1, 600, CONVERGE_WITHIN_LIMIT, 0}}},
    {"a local minimum",
     {.limit_ns = MS, .timeout_ns = 300 * MS, .on_timeout = CONVERGE_ON_TIMEOUT_SWITCH},
     5,
     {{300, 100, CONVERGE_OVER_LIMIT, 0},
      {200, 200, CONVERGE_OVER_LIMIT, 0},
      {400, 300, CONVERGE_AWAIT_MINIMUM, 0},
      {350, 400, CONVERGE_AWAIT_MINIMUM, 0},
      {199, 500, CONVERGE_LOCAL_MINIMUM, 0}}},
    {"no minimum to be had",
     {.limit_ns = MS, .timeout_ns = 100 * MS, .on_timeout = CONVERGE_ON_TIMEOUT_SWITCH},
     5,
     {{300, 100, CONVERGE_AWAIT_MINIMUM, 0},
      {301, 200, CONVERGE_AWAIT_MINIMUM, 0},
      {302, 300, CONVERGE_AWAIT_MINIMUM, 0},
      {303, 400, CONVERGE_AWAIT_MINIMUM, 0},
      {304, 500, CONVERGE_WAITED_ENOUGH, 0}}},
    {"throttled by need",
     {.limit_ns = MS, .throttle = CONVERGE_THROTTLE_AUTO},
     6,
     {{800, 100, CONVERGE_OVER_LIMIT, 0},  /* the first round says nothing */
      {400, 200, CONVERGE_OVER_LIMIT, 0},  /* half of it: progress */
      {390, 300, CONVERGE_OVER_LIMIT, 20}, /* none */
      {390, 400, CONVERGE_OVER_LIMIT, 30},
      {200, 500, CONVERGE_OVER_LIMIT, 30}, /* it helped: no more than that */
      {200, 600, CONVERGE_OVER_LIMIT, 40}}},
    {"throttled from the start",
     {.limit_ns = MS, .throttle = 35},
     2,
     {{800, 100, CONVERGE_OVER_LIMIT, 35}, {100, 200, CONVERGE_OVER_LIMIT, 35}}},
};

static void test_courses(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof(courses) / sizeof(courses[0]); c++) {
        struct converge_history history = {.nrounds = 0};

        for (unsigned r = 0; r < courses[c].nrounds; r++) {
            struct converge_input input = {.pending_bytes =
                                               courses[c].round[r].pending_mb * 1000000,
                                           .bandwidth = 1000000000,
                                           .elapsed_ns = courses[c].round[r].elapsed_ms * MS};
            struct converge_verdict verdict = converge_decide(&courses[c].policy, &input, &history);
            char text[CONVERGE_TEXT_BYTES];

            (void)converge_explain(&courses[c].policy, &input, &verdict, text, sizeof(text));
            if (verdict.reason != courses[c].round[r].reason ||
                (verdict.decision == CONVERGE_ANOTHER_ROUND &&
                 verdict.throttle != courses[c].round[r].throttle))
                fail_msg("%s, round %u: %s", courses[c].name, r, text);
            assert_non_null(strstr(text, "limit 1"));
        }
    }
}

/* Within a limit of 100 ms, on a link of 1 GB/s, which carries 244,140 pages a second. */
struct worth_case {
    uint64_t before_mb; /* what the round before left; 0: there was none */
    uint64_t left_mb, dirty_rate, fixed_ms, elapsed_ms;
    enum converge_reason reason;
};

static const struct worth_case worth_cases[] = {
    {0, 90, 20000, 0, 1, CONVERGE_WORTH_A_ROUND},
    {90, 8, 20000, 0, 1, CONVERGE_WORTH_A_ROUND},
    {90, 66, 20000, 0, 1, CONVERGE_WORTH_A_ROUND},
    {90, 68, 20000, 0, 1, CONVERGE_WITHIN_LIMIT},  /* no progress */
    {0, 90, 122000, 0, 1, CONVERGE_WORTH_A_ROUND}, /* just less than half of the link */
    {0, 90, 123000, 0, 1, CONVERGE_WITHIN_LIMIT},
    {0, 11, 20000, 10, 1, CONVERGE_WORTH_A_ROUND}, /* copying is most of the downtime */
    {0, 9, 20000, 10, 1, CONVERGE_WITHIN_LIMIT},
    {90, 0, 20000, 1, 1, CONVERGE_WITHIN_LIMIT},
    {0, 90, 20000, 0, 999, CONVERGE_WITHIN_LIMIT}, /* no time is left */
    {0, 90, 20000, 0, 830, CONVERGE_WITHIN_LIMIT}, /* too little for a round that takes longer */
    {0, 90, 20000, 0, 800, CONVERGE_WORTH_A_ROUND},
    {0, 101, 20000, 0, 1, CONVERGE_OVER_LIMIT},
};

static void test_worth_a_round(void **state)
{
    const struct converge_policy policy = {.limit_ns = 100 * MS, .timeout_ns = 999 * MS};

    (void)state;
    for (size_t i = 0; i < sizeof(worth_cases) / sizeof(worth_cases[0]); i++) {
        const struct worth_case *c = &worth_cases[i];
        struct converge_history history = {.pending_bytes = {c->before_mb * 1000000},
                                           .nrounds = c->before_mb ? 1 : 0};
        struct converge_input input = {.pending_bytes = c->left_mb * 1000000,
                                       .bandwidth = 1000000000,
                                       .fixed_ns = c->fixed_ms * MS,
                                       .elapsed_ns = c->elapsed_ms * MS,
                                       .dirty_rate = c->dirty_rate};
        struct converge_verdict verdict = converge_decide(&policy, &input, &history);

        if (verdict.reason != c->reason)
            fail_msg("case %zu: reason %d", i, (int)verdict.reason);
        assert_int_equal(verdict.decision, c->reason == CONVERGE_WITHIN_LIMIT
                                               ? CONVERGE_SWITCH_OVER
                                               : CONVERGE_ANOTHER_ROUND);
    }
}

/* A guest that comes in bursts: over the limit and within it by turns. */
static void test_worth_has_an_end(void **state)
{
    const struct converge_policy policy = {.limit_ns = 100 * MS};
    struct converge_history history = {.nrounds = 0};
    unsigned worth = 0;

    (void)state;
    for (unsigned r = 0; r < 40; r++) {
        struct converge_input input = {.pending_bytes = r % 2 ? 20000000 : 200000000,
                                       .bandwidth = 1000000000,
                                       .dirty_rate = 20000};

        if (converge_decide(&policy, &input, &history).reason == CONVERGE_WORTH_A_ROUND)
            worth++;
    }
    assert_int_equal(worth, CONVERGE_WORTH_ROUNDS);
}

static void test_throttle_has_an_end(void **state)
{
    struct converge_policy policy = {.limit_ns = MS, .throttle = CONVERGE_THROTTLE_AUTO};
    struct converge_input input = {.pending_bytes = 1u << 30, .bandwidth = 1000000};
    struct converge_history history = {.nrounds = 0};

    (void)state;
    for (unsigned r = 0; r < 100; r++)
        assert_true(converge_decide(&policy, &input, &history).throttle <= CONVERGE_THROTTLE_MAX);
    assert_int_equal(history.throttle, CONVERGE_THROTTLE_MAX);
}

static void test_words(void **state)
{
    enum converge_on_timeout on_timeout;
    unsigned throttle;

    (void)state;
    assert_int_equal(converge_throttle_parse("auto", &throttle, NULL), 0);
    assert_int_equal(throttle, CONVERGE_THROTTLE_AUTO);
    assert_int_equal(converge_throttle_parse("99", &throttle, NULL), 0);
    assert_int_equal(throttle, 99);
    assert_true(converge_throttle_parse("100", &throttle, NULL) < 0);
    assert_true(converge_throttle_parse("", &throttle, NULL) < 0);
    assert_true(converge_throttle_parse("-1", &throttle, NULL) < 0);
    assert_int_equal(converge_on_timeout_parse("switch", &on_timeout, NULL), 0);
    assert_int_equal(on_timeout, CONVERGE_ON_TIMEOUT_SWITCH);
    assert_true(converge_on_timeout_parse("wait", &on_timeout, NULL) < 0);
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
        cmocka_unit_test(test_courses),
        cmocka_unit_test(test_worth_a_round),
        cmocka_unit_test(test_worth_has_an_end),
        cmocka_unit_test(test_throttle_has_an_end),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_pace_keeps_the_limit),
        cmocka_unit_test(test_pace_forgives_only_a_little),
        cmocka_unit_test(test_unlimited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
