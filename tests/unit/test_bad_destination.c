/* SPDX-License-Identifier: MIT
 *
 * The source's engine against destinations that answer wrongly: one line each, and the guest stays.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/precopy.h"
#include "migrate/record.h"
#include "tests/unit/fake_guest.h"
#include "vmm/base/clock.h"

static const uint64_t sizes[FAKE_REGIONS] = {64, 37};

/* What a destination does: its HELLO after `bend`, then these records without waiting. */
struct script {
    const char *line;
    void (*bend)(struct wire_hello *hello);
    struct wire_header records[4];
    bool raw_garbage;
};

static void versions_2_to_3(struct wire_hello *hello)
{
    hello->version_min = 2;
    hello->version_max = 3;
}

static void other_session(struct wire_hello *hello)
{
    hello->session[3] ^= 1;
}

static void other_role(struct wire_hello *hello)
{
    hello->role = WIRE_ROLE_SOURCE;
}

static void other_page_size(struct wire_hello *hello)
{
    hello->page_bytes = 65536;
}

static void many_streams(struct wire_hello *hello)
{
    hello->stream_count = 4;
}

static const struct script scripts[] = {
    {.line = "this end speaks 1 to 1, the peer 2 to 3", .bend = versions_2_to_3},
    {.line = "another session", .bend = other_session},
    {.line = "source too", .bend = other_role},
    {.line = "page size is 65536", .bend = other_page_size},
    {.line = "stream 0 of 4", .bend = many_streams},
    {.line = "wrong magic", .raw_garbage = true},
    {.line = "got READY of round 0 where ACCEPT", .records = {{.type = WIRE_READY}}},
    {.line = "got ACCEPT of round 0 where SYNCED",
     .records = {{.type = WIRE_ACCEPT}, {.type = WIRE_ACCEPT}}},
    {.line = "got SYNCED of round 5 where SYNCED of round 0",
     .records = {{.type = WIRE_ACCEPT}, {.type = WIRE_SYNCED, .round = 5}}},
    {.line = "got RUNNING of round 1 where READY",
     .records = {{.type = WIRE_ACCEPT}, {.type = WIRE_SYNCED}, {.type = WIRE_RUNNING, .round = 1}}},
    {.line = "the destination spoke after READY",
     .records = {{.type = WIRE_ACCEPT},
                 {.type = WIRE_SYNCED},
                 {.type = WIRE_READY, .round = 1},
                 {.type = WIRE_RUNNING, .round = 1}}},
    {.line = "the peer gave up: ", .records = {{.type = WIRE_ACCEPT}, {.type = WIRE_ERROR}}},
};

struct destination {
    const struct script *script;
    int fd;
};

static void *destination_main(void *opaque)
{
    struct destination *destination = opaque;
    const struct script *script = destination->script;
    struct channel_options options = {.deadline_ns = 2 * CLOCK_NS_PER_SEC, .cancel_fd = -1};
    struct record_link link = {.channel = NULL};
    struct wire_hello hello;
    uint8_t rest[65536];
    struct iovec vector;

    assert_int_equal(channel_open(&link.channel, destination->fd, destination->fd, &options, NULL),
                     0);
    assert_int_equal(record_receive_hello(&link, WIRE_ROLE_SOURCE, &hello, NULL), 0);
    hello.role = WIRE_ROLE_DESTINATION;
    if (script->bend)
        script->bend(&hello);
    if (script->raw_garbage) {
        memset(rest, 'x', sizeof(rest));
        vector = (struct iovec){.iov_base = rest, .iov_len = sizeof(rest)};
        (void)channel_send(link.channel, &vector, 1, NULL);
    } else {
        (void)record_send_hello(&link, &hello, NULL);
    }
    for (size_t i = 0; i < 4 && script->records[i].type; i++) {
        struct wire_header header = script->records[i];

        (void)record_send(&link, &header, NULL, 0, NULL, 0, NULL);
    }
    do {
        vector = (struct iovec){.iov_base = rest, .iov_len = 1};
    } while (channel_receive(link.channel, &vector, 1, NULL) == 0);
    channel_close(link.channel);
    return NULL;
}

static void test_scripts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        struct precopy_options options = {
            .downtime_limit_ns = CLOCK_NS_PER_SEC, .chunk_pages = 512, .streams = 1};
        struct channel_options channel_options = {.deadline_ns = 2 * CLOCK_NS_PER_SEC,
                                                  .cancel_fd = -1};
        struct destination destination = {.script = &scripts[i]};
        struct fake_guest guest;
        struct migrate_source source = fake_guest_source(&guest);
        struct migrate_links links = {.next = NULL};
        struct progress progress;
        struct error err = {.text = ""};
        enum precopy_outcome outcome;
        pthread_t thread;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        destination.fd = fds[1];
        fake_guest_init(&guest, sizes, true);
        progress_init(&progress);
        assert_int_equal(channel_open(&links.first, fds[0], fds[0], &channel_options, &err), 0);
        assert_int_equal(pthread_create(&thread, NULL, destination_main, &destination), 0);
        outcome = precopy_run(&source, &links, &options, &progress, &err);
        channel_close(links.first);
        (void)pthread_join(thread, NULL);
        if (!strstr(err.text, scripts[i].line))
            fail_msg("script %zu: '%s' has no '%s'", i, err.text, scripts[i].line);
        assert_int_equal(outcome, PRECOPY_FAILED);
        assert_true(guest.running && !guest.moved && !guest.logging);
        progress_destroy(&progress);
        fake_guest_free(&guest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scripts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
