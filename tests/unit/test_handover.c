/* SPDX-License-Identifier: MIT
 *
 * Explores every interleaving of the two handover machines over a link that delays and loses
 * messages and breaks at any moment on either end, with crashes, questions and a user who settles
 * what is in doubt: never do both run the guest, and in the end one does unless its owner crashed.
 * The machines are compared with the table that the model of tests/model is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/handover.h"

/* Messages in flight, as bits: each is sent at most once. */
enum {
    MSG_STATE = 1,
    MSG_READY = 2,
    MSG_COMMIT = 4,
    MSG_RUNNING = 8,
    MSG_QUESTION = 16, /* these three can be sent again */
    MSG_ANSWER_RUNNING = 32,
    MSG_ANSWER_DISCARDED = 64,
};

struct world {
    enum handover_source source;
    enum handover_destination destination;
    unsigned flying;
    bool source_runs, destination_runs;
    bool source_lost, destination_lost; /* the end has noticed that the link is gone */
    bool source_crashed, destination_crashed;
    bool doubted;
    bool owner_crashed; /* the guest went down with its owner */
};

#define MAX_WORLDS 65536

struct search {
    struct world seen[MAX_WORLDS];
    size_t count, next;
    size_t found;      /* worlds that the current one leads to, itself aside */
    unsigned outcomes; /* 1: moved, 2: kept, 4: in doubt, 8: kept after doubt, 16: moved after it */
};

static void reach(struct search *search, const struct world *world)
{
    assert_false(world->source_runs && world->destination_runs);
    if (search->next && memcmp(&search->seen[search->next - 1], world, sizeof(*world)) != 0)
        search->found++;
    for (size_t i = 0; i < search->count; i++) {
        if (memcmp(&search->seen[i], world, sizeof(*world)) == 0)
            return;
    }
    assert_true(search->count < MAX_WORLDS);
    search->seen[search->count++] = *world;
}

static void obey(struct world *world, enum handover_action action)
{
    switch (action) {
    case HANDOVER_DO_SEND_COMMIT:
        world->flying |= MSG_COMMIT;
        break;
    case HANDOVER_DO_SEND_READY:
        world->flying |= MSG_READY;
        break;
    case HANDOVER_DO_RUN:
        world->destination_runs = true;
        world->flying |= MSG_RUNNING;
        break;
    case HANDOVER_DO_KEEP:
        world->source_runs = true;
        break;
    case HANDOVER_DO_ANSWER_RUNNING:
        world->flying |= MSG_ANSWER_RUNNING;
        break;
    case HANDOVER_DO_ANSWER_DISCARDED:
        world->flying |= MSG_ANSWER_DISCARDED;
        break;
    case HANDOVER_DO_WAIT: /* the question stays where it is */
        world->flying |= MSG_QUESTION;
        break;
    case HANDOVER_DO_HOLD:
        world->doubted = true;
        break;
    case HANDOVER_DO_NOTHING:
    case HANDOVER_DO_RELEASE:
    case HANDOVER_DO_DISCARD:
    case HANDOVER_DO_REFUSE:
        break;
    }
}

struct route {
    unsigned message;
    bool to_source;
    enum handover_event event;
};

static const struct route routes[] = {
    {MSG_STATE, false, HANDOVER_EVENT_LOADED},
    {MSG_READY, true, HANDOVER_EVENT_READY},
    {MSG_COMMIT, false, HANDOVER_EVENT_COMMIT}, /* however late */
    {MSG_RUNNING, true, HANDOVER_EVENT_RUNNING},
    {MSG_QUESTION, false, HANDOVER_EVENT_ASKED},
    {MSG_ANSWER_RUNNING, true, HANDOVER_EVENT_ANSWER_RUNNING},
    {MSG_ANSWER_DISCARDED, true, HANDOVER_EVENT_ANSWER_DISCARDED},
};

static void step_source(struct world *world, enum handover_event event)
{
    enum handover_action action = handover_source_step(&world->source, event);

    if (event == HANDOVER_EVENT_LOST)
        world->source_lost = true;
    if (action == HANDOVER_DO_REFUSE && !world->source_lost) {
        world->source_lost = true;
        action = handover_source_step(&world->source, HANDOVER_EVENT_LOST);
    }
    obey(world, action);
}

static void step_destination(struct world *world, enum handover_event event)
{
    enum handover_action action = handover_destination_step(&world->destination, event);

    if (event == HANDOVER_EVENT_LOST)
        world->destination_lost = true;
    if (action == HANDOVER_DO_REFUSE && !world->destination_lost) {
        world->destination_lost = true;
        action = handover_destination_step(&world->destination, HANDOVER_EVENT_LOST);
    }
    obey(world, action);
}

static void deliver(struct search *search, struct world world, const struct route *route)
{
    if (!(world.flying & route->message))
        return;
    world.flying &= ~route->message;
    reach(search, &world); /* lost on the way */
    if (route->to_source ? world.source_crashed : world.destination_crashed)
        return;
    if (route->to_source)
        step_source(&world, route->event);
    else
        step_destination(&world, route->event);
    reach(search, &world);
}

static void reach_by_source(struct search *search, struct world world, enum handover_event event)
{
    step_source(&world, event);
    if (event == HANDOVER_EVENT_SENT)
        world.flying |= MSG_STATE;
    reach(search, &world);
}

static void expand_source(struct search *search, const struct world *from)
{
    struct world world = *from;
    bool in_doubt = from->source == HANDOVER_COMMITTED && from->source_lost;

    if (from->source_crashed)
        return;
    if (from->source == HANDOVER_HERE)
        reach_by_source(search, *from, HANDOVER_EVENT_SENT);
    if (from->source != HANDOVER_MOVED && from->source != HANDOVER_KEPT)
        reach_by_source(search, *from, HANDOVER_EVENT_LOST);
    if (in_doubt) {
        world.flying |= MSG_QUESTION;
        reach(search, &world);
        /* The user forces only what he saw. */
        if (from->destination_crashed)
            reach_by_source(search, *from, HANDOVER_EVENT_FORCE_SOURCE);
        if (from->destination_runs)
            reach_by_source(search, *from, HANDOVER_EVENT_FORCE_DESTINATION);
    }
}

static void expand(struct search *search, const struct world *from)
{
    struct world world = *from;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        deliver(search, *from, &routes[i]);
    expand_source(search, from);
    if (from->destination_crashed)
        return;
    step_destination(&world, HANDOVER_EVENT_LOST);
    reach(search, &world);
}

static void crash(struct search *search, const struct world *from)
{
    struct world world = *from;

    if (!from->source_crashed && !from->source_lost && from->source != HANDOVER_MOVED) {
        world.source_crashed = true;
        reach(search, &world);
        world = *from;
    }
    if (from->destination_crashed)
        return;
    world.owner_crashed = world.owner_crashed || world.destination_runs;
    world.destination_crashed = true;
    world.destination_runs = false;
    reach(search, &world);
}

static void look_at(struct search *search, const struct world *world)
{
    if (world->source == HANDOVER_MOVED)
        search->outcomes |= world->doubted ? 16 : 1;
    if (world->source == HANDOVER_KEPT) {
        assert_true(world->source_runs);
        assert_false(world->destination == HANDOVER_OWNER && !world->destination_crashed);
        search->outcomes |= world->doubted ? 8 : 2;
    }
    if (world->source == HANDOVER_COMMITTED) {
        assert_false(world->source_runs);
        search->outcomes |= world->source_lost ? 4 : 0;
    }
    if (world->destination == HANDOVER_DISCARDED)
        assert_false(world->destination_runs);
    if (world->source == HANDOVER_MOVED && !world->owner_crashed)
        assert_true(world->destination_runs);
}

static void test_never_two_runners(void **state)
{
    static struct search search;
    struct world start;
    unsigned ends = 0;

    (void)state;
    memset(&start, 0, sizeof(start)); /* paused at the source, nothing sent */
    reach(&search, &start);
    while (search.next < search.count) {
        struct world world = search.seen[search.next++];

        look_at(&search, &world);
        search.found = 0;
        expand(&search, &world);
        /* Nothing more can happen but a crash: the guest runs somewhere unless its owner crashed.
         */
        if (search.found == 0 && !world.source_crashed && !world.owner_crashed)
            assert_true(world.source_runs != world.destination_runs);
        ends += search.found == 0;
        crash(&search, &world);
    }
    assert_int_equal(search.outcomes, 31);
    assert_true(ends >= 3);
}

struct transition {
    bool source;
    unsigned state;
    enum handover_event event;
    unsigned next;
    enum handover_action action;
};

static const struct transition table[] = {
#define SOURCE(state, event, next, action) \
    {true, HANDOVER_##state, HANDOVER_EVENT_##event, HANDOVER_##next, HANDOVER_DO_##action},
#define DESTINATION(state, event, next, action) \
    {false, HANDOVER_##state, HANDOVER_EVENT_##event, HANDOVER_##next, HANDOVER_DO_##action},
#include "tests/model/handover.def"
#undef SOURCE
#undef DESTINATION
};

static struct transition expected(bool source, unsigned state, enum handover_event event)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].source == source && table[i].state == state && table[i].event == event)
            return table[i];
    }
    return (struct transition){source, state, event, state, HANDOVER_DO_REFUSE};
}

/* Every state with every event, so that the model verifies this code and no other. */
static void test_is_the_table_of_the_model(void **state)
{
    (void)state;
    for (unsigned event = 0; event <= HANDOVER_EVENT_FORCE_DESTINATION; event++) {
        for (unsigned from = HANDOVER_HERE; from <= HANDOVER_KEPT; from++) {
            struct transition want = expected(true, from, event);
            enum handover_source source = from;

            assert_int_equal(handover_source_step(&source, event), want.action);
            assert_int_equal(source, want.next);
        }
        for (unsigned from = HANDOVER_EMPTY; from <= HANDOVER_DISCARDED; from++) {
            struct transition want = expected(false, from, event);
            enum handover_destination destination = from;

            assert_int_equal(handover_destination_step(&destination, event), want.action);
            assert_int_equal(destination, want.next);
        }
    }
}

static void test_refuses_what_does_not_fit(void **state)
{
    enum handover_source source = HANDOVER_HERE;
    enum handover_destination destination = HANDOVER_EMPTY;

    (void)state;
    assert_int_equal(handover_source_step(&source, HANDOVER_EVENT_READY), HANDOVER_DO_REFUSE);
    assert_int_equal(handover_source_step(&source, HANDOVER_EVENT_RUNNING), HANDOVER_DO_REFUSE);
    assert_int_equal(source, HANDOVER_HERE);
    assert_int_equal(handover_destination_step(&destination, HANDOVER_EVENT_COMMIT),
                     HANDOVER_DO_REFUSE);
    assert_int_equal(destination, HANDOVER_EMPTY);
    assert_int_equal(handover_destination_step(&destination, HANDOVER_EVENT_LOST),
                     HANDOVER_DO_DISCARD);
    assert_int_equal(handover_destination_step(&destination, HANDOVER_EVENT_LOADED),
                     HANDOVER_DO_REFUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_two_runners),
        cmocka_unit_test(test_is_the_table_of_the_model),
        cmocka_unit_test(test_refuses_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
