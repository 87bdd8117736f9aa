/* SPDX-License-Identifier: MIT
 *
 * In doubt without a guest: what the source hears late, and what it is told when it asks a
 * destination that answers for a while. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/answering.h"
#include "tools/doubt.h"
#include "vmm/base/clock.h"

#define ROUND 3

static const uint8_t session[WIRE_SESSION_BYTES] = "fifteen letters";

static const struct channel_options link_options = {.deadline_ns = CLOCK_NS_PER_SEC,
                                                    .cancel_fd = -1};

static struct channel *open_channel(int fd)
{
    struct channel *channel;

    assert_int_equal(channel_open(&channel, fd, fd, &link_options, NULL), 0);
    return channel;
}

/* A doubt that listens, and the destination's end. */
static void begin(struct doubt *doubt, struct record_link *there)
{
    int fds[2];
    struct channel *here;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(doubt_init(doubt, NULL), 0);
    here = open_channel(fds[0]);
    *there = (struct record_link){.channel = open_channel(fds[1])};
    doubt->of = (struct precopy_doubt){
        .owner = HANDOVER_COMMITTED, .round = ROUND, .link = {.channel = here}};
    memcpy(doubt->of.session, session, sizeof(session));
    doubt_begin(doubt, here, &link_options);
}

static bool told_within(const struct doubt *doubt, int ms)
{
    struct pollfd one = {.fd = doubt->heard_fd, .events = POLLIN};

    return poll(&one, 1, ms) == 1;
}

static void say(struct record_link *there, uint16_t type, uint32_t round)
{
    struct wire_header header = {.type = type, .round = round};
    uint8_t meta[8] = {0};

    assert_int_equal(record_send(there, &header, meta, type == WIRE_RUNNING ? 8 : 0, NULL, 0, NULL),
                     0);
}

static void test_running_is_heard_late(void **state)
{
    struct record_link there;
    struct doubt doubt;

    (void)state;
    begin(&doubt, &there);
    assert_false(told_within(&doubt, 50));
    /* A question in between costs nothing. */
    assert_false(doubt_stop_listening(&doubt));
    doubt_listen(&doubt);
    say(&there, WIRE_RUNNING, ROUND);
    assert_true(told_within(&doubt, 10000));
    assert_true(doubt_stop_listening(&doubt));
    channel_close(there.channel);
    doubt_destroy(&doubt);
}

static void test_what_is_no_running(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct record_link there;
        struct doubt doubt;

        begin(&doubt, &there);
        if (i == 0)
            say(&there, WIRE_RUNNING, ROUND + 1);
        if (i == 1)
            say(&there, WIRE_READY, ROUND);
        channel_close(there.channel);
        assert_true(told_within(&doubt, 10000));
        assert_false(doubt_stop_listening(&doubt));
        assert_null(doubt.channel); /* nothing more will come: asking is left */
        doubt_listen(&doubt);
        assert_false(told_within(&doubt, 0));
        doubt_destroy(&doubt);
    }
}

/* A destination after its migration. */
struct destination {
    struct lobby lobby;
    struct channel_options options;
    enum handover_destination owner;
    uint64_t for_ns;
    pthread_t thread;
    char directory[32], address[64];
    struct uri uri;
    int listen_fd;
};

static void *destination_main(void *opaque)
{
    struct destination *destination = opaque;

    answering_linger(&destination->lobby, &destination->options, session, destination->owner,
                     destination->for_ns);
    lobby_close(&destination->lobby);
    (void)close(destination->listen_fd);
    return NULL;
}

static void destination_start(struct destination *destination, enum handover_destination owner,
                              uint64_t for_ns)
{
    char chosen[URI_MAX_BYTES];

    memset(destination, 0, sizeof(*destination));
    (void)strcpy(destination->directory, "/tmp/pageferry-unit.XXXXXX");
    assert_non_null(mkdtemp(destination->directory));
    (void)snprintf(destination->address, sizeof(destination->address), "unix:%s/s",
                   destination->directory);
    destination->options = link_options;
    destination->options.cancel_fd = eventfd(0, EFD_CLOEXEC);
    destination->owner = owner;
    destination->for_ns = for_ns;
    assert_int_equal(uri_parse(destination->address, &destination->uri, NULL), 0);
    assert_int_equal(uri_listen(&destination->uri, &destination->listen_fd, chosen, NULL), 0);
    lobby_init(&destination->lobby, link_options.deadline_ns, destination->listen_fd);
    assert_int_equal(pthread_create(&destination->thread, NULL, destination_main, destination), 0);
}

static void destination_end(struct destination *destination, bool cancel)
{
    uint64_t one = 1;

    if (cancel)
        assert_int_equal(write(destination->options.cancel_fd, &one, sizeof(one)), sizeof(one));
    (void)pthread_join(destination->thread, NULL);
    (void)close(destination->options.cancel_fd);
    (void)unlink(destination->address + strlen("unix:"));
    (void)rmdir(destination->directory);
}

static void test_asking(void **state)
{
    static const struct {
        enum handover_destination owner;
        enum wire_answer answer;
    } cases[] = {{HANDOVER_OWNER, WIRE_ANSWER_RUNNING},
                 {HANDOVER_DISCARDED, WIRE_ANSWER_DISCARDED}};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct destination destination;
        struct record_link there;
        struct doubt doubt;
        struct error err = {.text = ""};
        enum wire_answer answer = WIRE_ANSWER_UNKNOWN;

        begin(&doubt, &there);
        destination_start(&destination, cases[i].owner, 60 * CLOCK_NS_PER_SEC);
        assert_int_equal(doubt_ask(&doubt, &destination.uri, &answer, &err), 0);
        assert_int_equal(answer, cases[i].answer);
        doubt.of.session[0] ^= 1;
        assert_int_equal(doubt_ask(&doubt, &destination.uri, &answer, &err), 0);
        assert_int_equal(answer, WIRE_ANSWER_UNKNOWN);
        destination_end(&destination, cases[i].owner == HANDOVER_OWNER); /* told, the other ends */
        assert_int_equal(doubt_ask(&doubt, &destination.uri, &answer, &err), -ENOENT);
        channel_close(there.channel);
        doubt_destroy(&doubt);
    }
}

static void test_answering_ends(void **state)
{
    struct destination destination;

    (void)state;
    destination_start(&destination, HANDOVER_OWNER, 100 * CLOCK_NS_PER_MS);
    destination_end(&destination, false);
}

static void test_who_cannot_be_asked(void **state)
{
    struct uri uri = {.kind = URI_EXEC, .rest = "true"};
    struct doubt doubt;
    struct record_link there;
    struct error err = {.text = ""};
    enum wire_answer answer;

    (void)state;
    begin(&doubt, &there);
    assert_int_equal(doubt_ask(&doubt, &uri, &answer, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "cannot be asked"));
    channel_close(there.channel);
    doubt_destroy(&doubt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running_is_heard_late),
        cmocka_unit_test(test_what_is_no_running),
        cmocka_unit_test(test_asking),
        cmocka_unit_test(test_answering_ends),
        cmocka_unit_test(test_who_cannot_be_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
