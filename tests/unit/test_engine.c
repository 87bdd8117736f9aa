/* SPDX-License-Identifier: MIT
 *
 * Both engines against each other over a real socket, with a fake guest that writes while it is
 * moved. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/precopy.h"
#include "migrate/receive.h"
#include "tests/unit/fake_guest.h"
#include "vmm/base/clock.h"

static const uint64_t sizes[FAKE_REGIONS] = {2048 + 37, 4096};

/* The destination's half, in a thread. */
struct receiver {
    struct fake_guest guest;
    struct channel *channel;
    struct progress progress;
    struct error err;
    enum receive_outcome outcome;
    pthread_t thread;
};

static void *receiver_main(void *opaque)
{
    struct receiver *receiver = opaque;
    struct migrate_sink sink = fake_guest_sink(&receiver->guest);
    struct migrate_links links = {.first = receiver->channel};

    receiver->outcome = receive_run(&sink, &links, &receiver->progress, &receiver->err);
    channel_close(receiver->channel);
    return NULL;
}

struct pair {
    struct fake_guest guest;
    struct channel *channel;
    struct progress progress;
    struct error err;
    struct precopy_options options;
    int cancel_fd;
    struct receiver receiver;
};

static void open_channel(struct channel **channel, int fd, int cancel_fd)
{
    struct channel_options options = {.deadline_ns = 20 * CLOCK_NS_PER_SEC, .cancel_fd = cancel_fd};
    struct error err;

    assert_int_equal(channel_open(channel, fd, fd, &options, &err), 0);
}

static void pair_init(struct pair *pair)
{
    int fds[2];

    memset(pair, 0, sizeof(*pair));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pair->cancel_fd = eventfd(0, EFD_CLOEXEC);
    fake_guest_init(&pair->guest, sizes, true);
    fake_guest_init(&pair->receiver.guest, sizes, false);
    open_channel(&pair->channel, fds[0], pair->cancel_fd);
    open_channel(&pair->receiver.channel, fds[1], -1);
    progress_init(&pair->progress);
    progress_init(&pair->receiver.progress);
    pair->options = (struct precopy_options){
        .downtime_limit_ns = 20 * CLOCK_NS_PER_MS, .chunk_pages = 512, .streams = 1};
}

static enum precopy_outcome pair_migrate(struct pair *pair)
{
    struct migrate_source source = fake_guest_source(&pair->guest);
    struct migrate_links links = {.first = pair->channel};
    enum precopy_outcome outcome;

    assert_int_equal(pthread_create(&pair->receiver.thread, NULL, receiver_main, &pair->receiver),
                     0);
    outcome = precopy_run(&source, &links, &pair->options, &pair->progress, &pair->err);
    channel_close(pair->channel);
    pair->channel = NULL;
    (void)pthread_join(pair->receiver.thread, NULL);
    assert_false(pair->guest.logging);
    return outcome;
}

static void pair_free(struct pair *pair)
{
    fake_guest_free(&pair->guest);
    fake_guest_free(&pair->receiver.guest);
    progress_destroy(&pair->progress);
    progress_destroy(&pair->receiver.progress);
    (void)close(pair->cancel_fd);
}

static void test_idle(void **state)
{
    struct pair pair;
    struct progress_view view;

    (void)state;
    pair_init(&pair);
    assert_int_equal(pair_migrate(&pair), PRECOPY_COMPLETED);
    assert_int_equal(pair.receiver.outcome, RECEIVE_RUNNING);
    assert_true(fake_guest_equal(&pair.guest, &pair.receiver.guest));
    assert_true(pair.guest.moved && pair.receiver.guest.ran_running);
    assert_string_equal(pair.receiver.guest.state, "the state of a fake guest");
    progress_get(&pair.progress, &view);
    assert_int_equal(view.phase, PROGRESS_DONE);
    assert_true(view.paused_ns && view.running_ns >= view.paused_ns);
    assert_int_equal(view.rounds[0].dirty_pages, (sizes[0] + 1) / 2 + sizes[1] / 2);
    pair_free(&pair);
}

static void test_busy(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct pair pair;

        pair_init(&pair);
        fake_guest_run(&pair.guest, seed);
        assert_int_equal(pair_migrate(&pair), PRECOPY_COMPLETED);
        assert_true(fake_guest_equal(&pair.guest, &pair.receiver.guest));
        pair_free(&pair);
    }
}

static void test_paused_arrives_paused(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.guest.running = false;
    assert_int_equal(pair_migrate(&pair), PRECOPY_COMPLETED);
    assert_true(pair.receiver.guest.ran);
    assert_false(pair.receiver.guest.ran_running);
    assert_false(pair.guest.running);
    pair_free(&pair);
}

static void test_check_sends_no_page(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.options.check_only = true;
    assert_int_equal(pair_migrate(&pair), PRECOPY_ACCEPTED);
    assert_int_equal(pair.receiver.outcome, RECEIVE_CHECKED);
    assert_true(pair.receiver.guest.created && pair.receiver.guest.discarded);
    assert_int_equal(pair.receiver.progress.view.data_pages, 0);
    assert_int_equal(pair.guest.pauses, 0);
    pair_free(&pair);
}

static void test_check_refused(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.options.check_only = true;
    pair.receiver.guest.fault = FAKE_FAIL_CREATE;
    assert_int_equal(pair_migrate(&pair), PRECOPY_FAILED);
    assert_int_equal(pair.receiver.outcome, RECEIVE_CHECKED);
    assert_non_null(strstr(pair.err.text, "too little memory"));
    assert_non_null(strstr(pair.receiver.err.text, "too little memory"));
    pair_free(&pair);
}

struct failure {
    enum fake_fault source, sink;
    const char *source_line, *sink_line;
};

static const struct failure failures[] = {
    {FAKE_FINE, FAKE_FAIL_CHECK, "avx512f", "avx512f"},
    {FAKE_FINE, FAKE_FAIL_CREATE, "too little memory", "too little memory"},
    {FAKE_FINE, FAKE_FAIL_LOAD, "before COMMIT: the peer gave up: ", "does not know"},
    {FAKE_FAIL_SYNC, FAKE_FINE, "in round 0: the guest ended with code 7", "ended with code 7"},
    {FAKE_FAIL_PAUSE, FAKE_FINE, "while pausing the guest: the guest ended", "the guest ended"},
};

static void test_failures_leave_the_guest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct pair pair;

        pair_init(&pair);
        pair.guest.fault = failures[i].source;
        pair.receiver.guest.fault = failures[i].sink;
        fake_guest_run(&pair.guest, 7);
        assert_int_equal(pair_migrate(&pair), PRECOPY_FAILED);
        assert_int_equal(pair.receiver.outcome, RECEIVE_DISCARDED);
        assert_true(pair.guest.running && !pair.guest.moved);
        assert_false(pair.receiver.guest.ran);
        assert_int_equal(pair.receiver.guest.created, pair.receiver.guest.discarded);
        assert_non_null(strstr(pair.err.text, failures[i].source_line));
        assert_non_null(strstr(pair.receiver.err.text, failures[i].sink_line));
        pair_free(&pair);
    }
}

/* Once pages flow: before that there is no machine to discard. */
static void *cancel_soon(void *opaque)
{
    struct pair *pair = opaque;
    struct progress_view view;
    uint64_t one = 1;

    do {
        (void)usleep(20000);
        progress_get(&pair->progress, &view);
    } while (view.phase < PROGRESS_ROUNDS);
    assert_int_equal(write(pair->cancel_fd, &one, sizeof(one)), sizeof(one));
    return NULL;
}

static void test_cancel(void **state)
{
    struct pair pair;
    pthread_t canceller;

    (void)state;
    pair_init(&pair);
    pair.options.max_bandwidth = 8ull * 1024 * 1024; /* 12 MiB to go */
    assert_int_equal(pthread_create(&canceller, NULL, cancel_soon, &pair), 0);
    assert_int_equal(pair_migrate(&pair), PRECOPY_CANCELLED);
    (void)pthread_join(canceller, NULL);
    assert_int_equal(pair.receiver.outcome, RECEIVE_DISCARDED);
    assert_non_null(strstr(pair.receiver.err.text, "cancelled at the source"));
    assert_true(pair.guest.running);
    pair_free(&pair);
}

/* Whoever notices that the guest ended interrupts the engine; the reason is the guest's end. */
static void test_guest_ends_in_a_long_round(void **state)
{
    struct pair pair;
    pthread_t canceller;

    (void)state;
    pair_init(&pair);
    pair.guest.fault = FAKE_ENDED;
    pair.options.max_bandwidth = 8ull * 1024 * 1024;
    assert_int_equal(pthread_create(&canceller, NULL, cancel_soon, &pair), 0);
    assert_int_equal(pair_migrate(&pair), PRECOPY_FAILED);
    (void)pthread_join(canceller, NULL);
    assert_non_null(strstr(pair.err.text, "in round 0: the guest ended with code 9"));
    assert_non_null(strstr(pair.receiver.err.text, "the guest ended with code 9"));
    pair_free(&pair);
}

static void test_bandwidth_limit_counts_every_byte(void **state)
{
    struct pair pair;
    struct progress_view view;

    (void)state;
    pair_init(&pair);
    pair.options.max_bandwidth = 24ull * 1024 * 1024;
    assert_int_equal(pair_migrate(&pair), PRECOPY_COMPLETED);
    progress_get(&pair.progress, &view);
    /* A lower bound on the time: a busy machine can only take longer. */
    assert_true((double)(view.running_ns - view.rounds_started_ns) * 1e-9 >
                (double)(view.sent_bytes - 1024 * 1024) / (double)pair.options.max_bandwidth);
    pair_free(&pair);
}

/* In the middle of the first round, which would take over a second. */
static void test_timeout_cancels(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.options.max_bandwidth = 8ull * 1024 * 1024; /* 12 MiB to go */
    pair.options.timeout_ns = 200 * CLOCK_NS_PER_MS;
    assert_int_equal(pair_migrate(&pair), PRECOPY_FAILED);
    assert_int_equal(pair.receiver.outcome, RECEIVE_DISCARDED);
    assert_non_null(strstr(pair.err.text, "in round 0: "));
    assert_non_null(strstr(pair.err.text, "timeout"));
    assert_non_null(strstr(pair.receiver.err.text, "timeout"));
    assert_true(pair.guest.running && !pair.guest.moved);
    pair_free(&pair);
}

/* A guest that never fits the limit moves all the same. */
static void test_timeout_switches(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.options.max_bandwidth = 24ull * 1024 * 1024;
    pair.options.downtime_limit_ns = 1;
    pair.options.timeout_ns = CLOCK_NS_PER_MS;
    pair.options.on_timeout = CONVERGE_ON_TIMEOUT_SWITCH;
    fake_guest_run(&pair.guest, 3);
    assert_int_equal(pair_migrate(&pair), PRECOPY_COMPLETED);
    assert_true(fake_guest_equal(&pair.guest, &pair.receiver.guest));
    pair_free(&pair);
}

/* Slowed while it is copied, at full speed again however that ends; fake_guest asserts that nobody
 * slows it in the last pause. */
static void test_throttle_ends(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        struct pair pair;

        pair_init(&pair);
        pair.options.throttle = 40;
        pair.options.max_bandwidth = 24ull * 1024 * 1024;
        pair.options.downtime_limit_ns = 1;
        pair.options.timeout_ns = 3 * CLOCK_NS_PER_SEC / 2;
        pair.options.on_timeout =
            way == 0 ? CONVERGE_ON_TIMEOUT_SWITCH : CONVERGE_ON_TIMEOUT_CANCEL;
        if (way == 2)
            pair.guest.fault = FAKE_FAIL_PAUSE;
        fake_guest_run(&pair.guest, 3);
        assert_int_equal(pair_migrate(&pair), way == 0 ? PRECOPY_COMPLETED : PRECOPY_FAILED);
        assert_int_equal(pair.guest.most_throttle, 40);
        assert_int_equal(pair.guest.throttle, 0);
        pair_free(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_paused_arrives_paused),
        cmocka_unit_test(test_check_sends_no_page),
        cmocka_unit_test(test_check_refused),
        cmocka_unit_test(test_failures_leave_the_guest),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_guest_ends_in_a_long_round),
        cmocka_unit_test(test_timeout_cancels),
        cmocka_unit_test(test_timeout_switches),
        cmocka_unit_test(test_throttle_ends),
        cmocka_unit_test(test_bandwidth_limit_counts_every_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
