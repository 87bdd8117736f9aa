/* SPDX-License-Identifier: MIT
 *
 * Explores every interleaving of the two handover machines over a link that delays and loses
 * messages and breaks at any moment on either end: never do both run the guest, and a source that
 * keeps it never gave it away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/handover.h"

/* Messages in flight, as bits: each is sent at most once. */
enum { MSG_STATE = 1, MSG_READY = 2, MSG_COMMIT = 4, MSG_RUNNING = 8 };

struct world {
    enum handover_source source;
    enum handover_destination destination;
    unsigned flying;
    bool source_runs, destination_runs;
    bool source_lost, destination_lost; /* the end has noticed that the link is gone */
};

#define MAX_WORLDS 4096

struct search {
    struct world seen[MAX_WORLDS];
    size_t count, next;
    unsigned outcomes; /* 1: moved, 2: kept, 4: in doubt */
};

static void reach(struct search *search, const struct world *world)
{
    assert_false(world->source_runs && world->destination_runs);
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
    case HANDOVER_DO_NOTHING:
    case HANDOVER_DO_RELEASE:
    case HANDOVER_DO_HOLD:
    case HANDOVER_DO_DISCARD:
    case HANDOVER_DO_REFUSE:
        break;
    }
}

static void deliver(struct search *search, struct world world, unsigned message)
{
    enum handover_action action;

    if (!(world.flying & message))
        return;
    world.flying &= ~message;
    reach(search, &world); /* lost on the way */
    switch (message) {
    case MSG_STATE:
        if (world.destination_lost)
            return;
        action = handover_destination_step(&world.destination, HANDOVER_EVENT_LOADED);
        break;
    case MSG_COMMIT:
        if (world.destination_lost)
            return;
        action = handover_destination_step(&world.destination, HANDOVER_EVENT_COMMIT);
        break;
    case MSG_READY:
        if (world.source_lost)
            return;
        action = handover_source_step(&world.source, HANDOVER_EVENT_READY);
        break;
    default:
        /* Even an end that gave the link up may hear RUNNING late. */
        action = handover_source_step(&world.source, HANDOVER_EVENT_RUNNING);
        break;
    }
    obey(&world, action);
    reach(search, &world);
}

static void expand(struct search *search, const struct world *from)
{
    struct world world = *from;

    for (unsigned message = MSG_STATE; message <= MSG_RUNNING; message <<= 1)
        deliver(search, *from, message);
    if (from->source == HANDOVER_HERE) {
        obey(&world, handover_source_step(&world.source, HANDOVER_EVENT_SENT));
        world.flying |= MSG_STATE;
        reach(search, &world);
    }
    world = *from;
    world.source_lost = true;
    obey(&world, handover_source_step(&world.source, HANDOVER_EVENT_LOST));
    reach(search, &world);
    world = *from;
    world.destination_lost = true;
    obey(&world, handover_destination_step(&world.destination, HANDOVER_EVENT_LOST));
    reach(search, &world);
}

static void test_never_two_runners(void **state)
{
    static struct search search;
    struct world start;

    (void)state;
    memset(&start, 0, sizeof(start)); /* paused at the source, nothing sent */
    reach(&search, &start);
    while (search.next < search.count) {
        struct world world = search.seen[search.next++];

        if (world.source == HANDOVER_MOVED) {
            assert_true(world.destination_runs);
            search.outcomes |= 1;
        }
        if (world.source == HANDOVER_KEPT)
            search.outcomes |= 2;
        if (world.source == HANDOVER_COMMITTED && world.source_lost) {
            assert_false(world.source_runs);
            search.outcomes |= 4;
        }
        expand(&search, &world);
    }
    assert_int_equal(search.outcomes, 7);
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
        cmocka_unit_test(test_refuses_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
