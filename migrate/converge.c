/* SPDX-License-Identifier: MIT */
#include "migrate/converge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "migrate/endpoint.h"
#include "vmm/base/clock.h"
#include "vmm/base/error.h"
#include "vmm/base/size.h"

uint64_t converge_predict_ns(const struct converge_input *input)
{
    double copy_ns;

    if (input->pending_bytes == 0)
        return input->fixed_ns;
    if (input->bandwidth == 0)
        return UINT64_MAX;
    copy_ns = (double)input->pending_bytes / (double)input->bandwidth * (double)CLOCK_NS_PER_SEC;
    if (copy_ns >= (double)(UINT64_MAX / 2) || input->fixed_ns > UINT64_MAX / 2)
        return UINT64_MAX;
    return input->fixed_ns + (uint64_t)copy_ns;
}

uint64_t converge_dirty_rate(uint64_t pending_pages, uint64_t round_ns)
{
    return (uint64_t)((double)pending_pages / (double)(round_ns ? round_ns : 1) *
                      (double)CLOCK_NS_PER_SEC);
}

static bool timed_out(const struct converge_policy *policy, uint64_t elapsed_ns)
{
    return policy->timeout_ns && elapsed_ns >= policy->timeout_ns;
}

bool converge_must_give_up(const struct converge_policy *policy, uint64_t elapsed_ns)
{
    return policy->on_timeout == CONVERGE_ON_TIMEOUT_CANCEL && timed_out(policy, elapsed_ns);
}

/* The least that recent rounds left, the one just ended not among them; UINT64_MAX where there was
 * none. */
static uint64_t recent_minimum(const struct converge_history *history)
{
    uint64_t kept = history->nrounds < CONVERGE_RECENT_ROUNDS ? history->nrounds
                                                              : (uint64_t)CONVERGE_RECENT_ROUNDS;
    uint64_t least = UINT64_MAX;

    for (uint64_t i = 0; i < kept; i++) {
        if (history->pending_bytes[i] < least)
            least = history->pending_bytes[i];
    }
    return least;
}

/* Did the round that just ended leave clearly less than the one before it? */
static bool made_progress(const struct converge_history *history, uint64_t pending_bytes)
{
    uint64_t before = history->pending_bytes[(history->nrounds - 1) % CONVERGE_RECENT_ROUNDS];

    return (double)pending_bytes * 100 < (double)before * CONVERGE_PROGRESS_PERCENT;
}

static unsigned next_throttle(const struct converge_policy *policy,
                              const struct converge_history *history, uint64_t pending_bytes)
{
    unsigned next =
        history->throttle ? history->throttle + CONVERGE_THROTTLE_STEP : CONVERGE_THROTTLE_FIRST;

    if (policy->throttle != CONVERGE_THROTTLE_AUTO)
        return policy->throttle;
    /* Round 0 copied everything: what it left says nothing about progress. */
    if (history->nrounds == 0 || made_progress(history, pending_bytes))
        return history->throttle;
    return next < CONVERGE_THROTTLE_MAX ? next : CONVERGE_THROTTLE_MAX;
}

/* The limit is met: would another round leave so much less that the guest gains by it? */
static bool worth_a_round(const struct converge_policy *policy, const struct converge_input *input,
                          const struct converge_history *history, uint64_t predicted_ns)
{
    double dirtied = (double)input->dirty_rate * MIGRATE_PAGE_BYTES * 100;

    if (history->worth_rounds == CONVERGE_WORTH_ROUNDS || predicted_ns / 2 <= input->fixed_ns)
        return false;
    /* A round that the timeout ends in its middle is no gain. */
    if (policy->timeout_ns && timed_out(policy, input->elapsed_ns + 2 * predicted_ns))
        return false;
    if (dirtied > (double)input->bandwidth * CONVERGE_WORTH_PERCENT)
        return false;
    return history->nrounds == 0 || made_progress(history, input->pending_bytes);
}

static enum converge_reason judge(const struct converge_policy *policy,
                                  const struct converge_input *input,
                                  const struct converge_history *history, uint64_t predicted_ns)
{
    if (predicted_ns <= policy->limit_ns)
        return worth_a_round(policy, input, history, predicted_ns) ? CONVERGE_WORTH_A_ROUND
                                                                   : CONVERGE_WITHIN_LIMIT;
    if (input->pending_bytes == 0)
        return CONVERGE_NOTHING_PENDING;
    if (!timed_out(policy, input->elapsed_ns))
        return CONVERGE_OVER_LIMIT;
    if (policy->on_timeout == CONVERGE_ON_TIMEOUT_CANCEL)
        return CONVERGE_TIMED_OUT;
    if (history->nrounds && input->pending_bytes <= recent_minimum(history))
        return CONVERGE_LOCAL_MINIMUM;
    return history->late_rounds < CONVERGE_LATE_ROUNDS ? CONVERGE_AWAIT_MINIMUM
                                                       : CONVERGE_WAITED_ENOUGH;
}

static enum converge_decision decision_of(enum converge_reason reason)
{
    switch (reason) {
    case CONVERGE_WITHIN_LIMIT:
    case CONVERGE_NOTHING_PENDING:
    case CONVERGE_LOCAL_MINIMUM:
    case CONVERGE_WAITED_ENOUGH:
        return CONVERGE_SWITCH_OVER;
    case CONVERGE_TIMED_OUT:
        return CONVERGE_GIVE_UP;
    case CONVERGE_WORTH_A_ROUND:
    case CONVERGE_OVER_LIMIT:
    case CONVERGE_AWAIT_MINIMUM:
        break;
    }
    return CONVERGE_ANOTHER_ROUND;
}

struct converge_verdict converge_decide(const struct converge_policy *policy,
                                        const struct converge_input *input,
                                        struct converge_history *history)
{
    struct converge_verdict verdict = {.predicted_ns = converge_predict_ns(input)};

    verdict.reason = judge(policy, input, history, verdict.predicted_ns);
    verdict.decision = decision_of(verdict.reason);
    verdict.throttle = next_throttle(policy, history, input->pending_bytes);
    if (timed_out(policy, input->elapsed_ns))
        history->late_rounds++;
    if (verdict.reason == CONVERGE_WORTH_A_ROUND)
        history->worth_rounds++;
    history->throttle = verdict.throttle;
    history->pending_bytes[history->nrounds % CONVERGE_RECENT_ROUNDS] = input->pending_bytes;
    history->nrounds++;
    return verdict;
}

static const char *duration(uint64_t ns, char *buf, size_t buf_bytes)
{
    if (ns >= UINT64_MAX / 2)
        return "unknown";
    return size_format_duration(ns, buf, buf_bytes);
}

const char *converge_explain(const struct converge_policy *policy,
                             const struct converge_input *input,
                             const struct converge_verdict *verdict, char *text, size_t text_bytes)
{
    static const char *const why[] = {
        [CONVERGE_WITHIN_LIMIT] = "switching over: the downtime is within the limit",
        [CONVERGE_WORTH_A_ROUND] = "another round: within the limit, but much can be gained",
        [CONVERGE_NOTHING_PENDING] = "switching over: nothing is left that a round could shorten",
        [CONVERGE_OVER_LIMIT] = "another round",
        [CONVERGE_TIMED_OUT] = "giving up: the timeout is over",
        [CONVERGE_AWAIT_MINIMUM] = "another round: the timeout is over, less was left before",
        [CONVERGE_LOCAL_MINIMUM] = "switching over: the timeout is over, at a local minimum",
        [CONVERGE_WAITED_ENOUGH] = "switching over: the timeout is long over",
    };
    char left[16], rate[16], predicted[16], limit[16], elapsed[16], timeout[24] = "";

    if (policy->timeout_ns)
        (void)snprintf(timeout, sizeof(timeout), " of %s",
                       size_format_duration(policy->timeout_ns, limit, sizeof(limit)));
    (void)snprintf(text, text_bytes,
                   "%s (%s left, %s/s, %" PRIu64
                   " pages/s dirtied, downtime ~%s, limit %s, after %s%s, throttle %u%%)",
                   why[verdict->reason], size_format(input->pending_bytes, left, sizeof(left)),
                   size_format(input->bandwidth, rate, sizeof(rate)), input->dirty_rate,
                   duration(verdict->predicted_ns, predicted, sizeof(predicted)),
                   size_format_duration(policy->limit_ns, limit, sizeof(limit)),
                   size_format_duration(input->elapsed_ns, elapsed, sizeof(elapsed)), timeout,
                   verdict->throttle);
    return text;
}

int converge_throttle_parse(const char *text, unsigned *throttle, struct error *err)
{
    uint64_t number;

    if (strcmp(text, "auto") == 0) {
        *throttle = CONVERGE_THROTTLE_AUTO;
        return 0;
    }
    if (size_parse_number(text, CONVERGE_THROTTLE_MAX, &number, NULL))
        return error_set(err, EINVAL, "'%.64s' is no throttle: it must be auto or 0 to %u", text,
                         CONVERGE_THROTTLE_MAX);
    *throttle = (unsigned)number;
    return 0;
}

int converge_on_timeout_parse(const char *text, enum converge_on_timeout *on_timeout,
                              struct error *err)
{
    if (strcmp(text, "cancel") == 0)
        *on_timeout = CONVERGE_ON_TIMEOUT_CANCEL;
    else if (strcmp(text, "switch") == 0)
        *on_timeout = CONVERGE_ON_TIMEOUT_SWITCH;
    else
        return error_set(err, EINVAL, "'%.64s' is nothing to do on a timeout: cancel or switch",
                         text);
    return 0;
}

const char *converge_on_timeout_name(enum converge_on_timeout on_timeout)
{
    return on_timeout == CONVERGE_ON_TIMEOUT_SWITCH ? "switch" : "cancel";
}
