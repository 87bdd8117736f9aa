/* SPDX-License-Identifier: MIT
 *
 * The question of a source in doubt: what is answered, who is turned away, and peers that answer
 * wrongly or not at all. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "migrate/query.h"
#include "migrate/record.h"
#include "vmm/base/clock.h"

static const uint8_t session[WIRE_SESSION_BYTES] = "fifteen letters";
static const uint8_t other[WIRE_SESSION_BYTES] = "another session";

static void open_pair(struct channel **ends, uint64_t deadline_ns)
{
    struct channel_options options = {.deadline_ns = deadline_ns, .cancel_fd = -1};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(channel_open(&ends[i], fds[i], fds[i], &options, NULL), 0);
}

/* The asking end, in a thread. */
struct asker {
    struct channel *channel;
    const uint8_t *session;
    enum wire_answer answer;
    struct error err;
    int rc;
};

static void *ask(void *opaque)
{
    struct asker *asker = opaque;

    asker->rc = query_ask(asker->channel, asker->session, &asker->answer, &asker->err);
    channel_close(asker->channel);
    return NULL;
}

static void test_answers(void **state)
{
    static const struct {
        const uint8_t *asked, *known;
        enum wire_answer served, expected;
    } cases[] = {
        {session, session, WIRE_ANSWER_RUNNING, WIRE_ANSWER_RUNNING},
        {session, session, WIRE_ANSWER_DISCARDED, WIRE_ANSWER_DISCARDED},
        {session, other, WIRE_ANSWER_RUNNING, WIRE_ANSWER_UNKNOWN},
        {session, NULL, WIRE_ANSWER_UNKNOWN, WIRE_ANSWER_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct channel *ends[2];
        struct asker asker = {.session = cases[i].asked};
        struct error err = {.text = ""};
        pthread_t thread;
        bool asked;

        open_pair(ends, 5 * CLOCK_NS_PER_SEC);
        asker.channel = ends[0];
        assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
        assert_int_equal(query_serve(ends[1], cases[i].known, cases[i].served, "no", &asked, &err),
                         0);
        (void)pthread_join(thread, NULL);
        channel_close(ends[1]);
        assert_int_equal(asker.rc, 0);
        assert_int_equal(asker.answer, cases[i].expected);
        assert_int_equal(asked, cases[i].expected != WIRE_ANSWER_UNKNOWN);
    }
}

/* Sends bytes ahead, as a peer that does not listen. */
static void send_hello(struct channel *channel, struct record_link *link, uint16_t role,
                       uint16_t flags, const uint8_t *of)
{
    struct wire_hello hello = {.version_min = 1,
                               .version_max = 1,
                               .role = role,
                               .flags = flags,
                               .stream_count = 1,
                               .page_bytes = MIGRATE_PAGE_BYTES};

    *link = (struct record_link){.channel = channel};
    memcpy(hello.session, of, sizeof(hello.session));
    assert_int_equal(record_send_hello(link, &hello, NULL), 0);
}

static void test_a_second_guest_is_turned_away(void **state)
{
    struct channel *ends[2];
    struct record_link link;
    struct wire_hello hello;
    struct record record;
    struct error err = {.text = ""};
    bool asked;

    (void)state;
    open_pair(ends, 5 * CLOCK_NS_PER_SEC);
    /* Even in the name of the same session. */
    send_hello(ends[0], &link, WIRE_ROLE_SOURCE, 0, session);
    assert_int_equal(
        query_serve(ends[1], session, WIRE_ANSWER_RUNNING, "a guest is here", &asked, &err),
        -EBUSY);
    assert_false(asked);
    assert_int_equal(record_receive_hello(&link, WIRE_ROLE_DESTINATION, &hello, &err), 0);
    assert_int_equal(record_receive(&link, &record, &err), -ECONNABORTED);
    assert_non_null(strstr(err.text, "a guest is here"));
    channel_close(ends[0]);
    channel_close(ends[1]);
}

static void test_wrong_answers(void **state)
{
    static const struct {
        const uint8_t *session;
        uint16_t type;
        uint64_t value;
        uint32_t bytes;
        const char *line;
    } wrong[] = {
        {other, WIRE_ANSWER, WIRE_ANSWER_DISCARDED, 8, "another session"},
        {session, WIRE_ANSWER, 0, 8, "says nothing"},
        {session, WIRE_ANSWER, 4, 8, "says nothing"},
        {session, WIRE_ANSWER, WIRE_ANSWER_DISCARDED, 0, "says nothing"},
        {session, WIRE_READY, 0, 0, "where ANSWER"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wire_header header = {.type = wrong[i].type};
        struct channel *ends[2];
        struct record_link link;
        struct error err = {.text = ""};
        enum wire_answer answer = WIRE_ANSWER_UNKNOWN;
        uint8_t meta[8];

        open_pair(ends, 5 * CLOCK_NS_PER_SEC);
        send_hello(ends[1], &link, WIRE_ROLE_DESTINATION, 0, wrong[i].session);
        wire_put_u64(meta, wrong[i].value);
        assert_int_equal(record_send(&link, &header, meta, wrong[i].bytes, NULL, 0, NULL), 0);
        assert_int_not_equal(query_ask(ends[0], session, &answer, &err), 0);
        assert_non_null(strstr(err.text, wrong[i].line));
        assert_int_equal(answer, WIRE_ANSWER_UNKNOWN);
        channel_close(ends[0]);
        channel_close(ends[1]);
    }
}

static void test_silence_ends_at_the_deadline(void **state)
{
    struct channel *ends[2];
    struct error err = {.text = ""};
    enum wire_answer answer;
    uint64_t begin = clock_now_ns();
    bool asked;

    (void)state;
    open_pair(ends, 200 * CLOCK_NS_PER_MS);
    assert_int_equal(query_ask(ends[0], session, &answer, &err), -ETIMEDOUT);
    assert_true(clock_now_ns() - begin >= 200 * CLOCK_NS_PER_MS);
    channel_close(ends[0]);
    channel_close(ends[1]);
    open_pair(ends, 200 * CLOCK_NS_PER_MS);
    assert_int_equal(query_serve(ends[0], session, WIRE_ANSWER_RUNNING, "no", &asked, &err),
                     -ETIMEDOUT);
    channel_close(ends[0]);
    channel_close(ends[1]);
    assert_true(clock_now_ns() - begin < 10 * CLOCK_NS_PER_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_a_second_guest_is_turned_away),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_silence_ends_at_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
