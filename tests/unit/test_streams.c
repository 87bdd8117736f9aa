/* SPDX-License-Identifier: MIT
 *
 * Several streams at once: what arrives is what was there, whichever stream is slow, compressed or
 * cut. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/precopy.h"
#include "migrate/receive.h"
#include "tests/unit/fake_guest.h"
#include "vmm/base/clock.h"

#define MAX_STREAMS 16

static const uint64_t sizes[FAKE_REGIONS] = {2048 + 37, 4096};

/* A hop on the way of one stream, source to destination, that takes its time or breaks. */
struct hop {
    int from, to;
    unsigned delay_us;    /* before every piece */
    uint64_t delay_after; /* bytes that pass at once before */
    uint64_t delay_until; /* bytes that pass before that ends; 0: never */
    uint64_t break_after; /* bytes; 0: never */
    pthread_t thread;
    bool started;
};

static void *hop_main(void *opaque)
{
    struct hop *hop = opaque;
    uint64_t passed = 0;
    char bytes[65536];
    ssize_t got;

    while ((got = recv(hop->from, bytes, sizeof(bytes), 0)) > 0) {
        if (hop->delay_us && passed >= hop->delay_after &&
            (!hop->delay_until || passed < hop->delay_until))
            (void)usleep(hop->delay_us);
        for (ssize_t at = 0; at < got;) {
            ssize_t sent = send(hop->to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL);

            if (sent <= 0)
                break;
            at += sent;
        }
        passed += (uint64_t)got;
        if (hop->break_after && passed > hop->break_after)
            break;
    }
    (void)shutdown(hop->from, SHUT_RDWR);
    (void)shutdown(hop->to, SHUT_RDWR);
    return NULL;
}

/* The other way is not delayed. */
static void *back_main(void *opaque)
{
    struct hop *hop = opaque;
    struct hop back = {.from = hop->to, .to = hop->from};

    return hop_main(&back);
}

struct bench {
    struct fake_guest guest, arrived;
    struct channel *source[MAX_STREAMS], *destination[MAX_STREAMS];
    struct hop hop[MAX_STREAMS];
    pthread_t back[MAX_STREAMS];
    unsigned next_source, next_destination;
    bool refuse; /* no stream but the first can be connected */
    struct precopy_options options;
    struct progress progress, receive_progress;
    struct error err, receive_err;
    enum receive_outcome received;
};

static struct channel *open_end(int fd, uint64_t deadline_ns)
{
    struct channel_options options = {.deadline_ns = deadline_ns, .cancel_fd = -1};
    struct channel *channel;

    assert_int_equal(channel_open(&channel, fd, fd, &options, NULL), 0);
    return channel;
}

/* Every stream with a hop that does nothing yet. */
static void bench_init_with(struct bench *bench, unsigned streams, uint64_t deadline_ns)
{
    memset(bench, 0, sizeof(*bench));
    fake_guest_init(&bench->guest, sizes, true);
    fake_guest_init(&bench->arrived, sizes, false);
    progress_init(&bench->progress);
    progress_init(&bench->receive_progress);
    bench->options = (struct precopy_options){
        .downtime_limit_ns = CLOCK_NS_PER_SEC, .chunk_pages = 512, .streams = streams};
    for (unsigned i = 0; i < streams; i++) {
        int near[2], far[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, near), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, far), 0);
        bench->source[i] = open_end(near[0], deadline_ns);
        bench->destination[i] = open_end(far[1], deadline_ns);
        bench->hop[i].from = near[1];
        bench->hop[i].to = far[0];
    }
    bench->next_source = bench->next_destination = 1;
}

static void bench_init(struct bench *bench, unsigned streams)
{
    bench_init_with(bench, streams, 20 * CLOCK_NS_PER_SEC);
}

static int connect_next(void *opaque, struct channel **out, struct error *err)
{
    struct bench *bench = opaque;

    if (bench->refuse)
        return error_set(err, ECONNREFUSED, "connection refused");
    *out = bench->source[bench->next_source];
    bench->source[bench->next_source++] = NULL;
    return 0;
}

static int accept_next(void *opaque, struct channel **out, struct error *err)
{
    struct bench *bench = opaque;
    struct pollfd first = {.fd = channel_fd(bench->destination[0]), .events = POLLIN};

    if (bench->refuse) {
        assert_int_equal(poll(&first, 1, 20000), 1);
        return error_set(err, ECONNRESET, "the source went away");
    }
    *out = bench->destination[bench->next_destination];
    bench->destination[bench->next_destination++] = NULL;
    return 0;
}

static void *receive_main(void *opaque)
{
    struct bench *bench = opaque;
    struct migrate_sink sink = fake_guest_sink(&bench->arrived);
    struct migrate_links links = {
        .first = bench->destination[0], .next = accept_next, .opaque = bench};

    bench->received = receive_run(&sink, &links, &bench->receive_progress, &bench->receive_err);
    channel_close(bench->destination[0]);
    return NULL;
}

static void close_unused(struct bench *bench)
{
    while (bench->next_source < bench->options.streams)
        channel_close(bench->source[bench->next_source++]);
    while (bench->next_destination < bench->options.streams)
        channel_close(bench->destination[bench->next_destination++]);
}

static enum precopy_outcome bench_migrate(struct bench *bench)
{
    struct migrate_source source = fake_guest_source(&bench->guest);
    struct migrate_links links = {.first = bench->source[0], .next = connect_next, .opaque = bench};
    enum precopy_outcome outcome;
    pthread_t receiver;

    for (unsigned i = 0; i < bench->options.streams; i++) {
        assert_int_equal(pthread_create(&bench->hop[i].thread, NULL, hop_main, &bench->hop[i]), 0);
        assert_int_equal(pthread_create(&bench->back[i], NULL, back_main, &bench->hop[i]), 0);
    }
    assert_int_equal(pthread_create(&receiver, NULL, receive_main, bench), 0);
    outcome = precopy_run(&source, &links, &bench->options, &bench->progress, &bench->err);
    channel_close(bench->source[0]);
    (void)pthread_join(receiver, NULL);
    close_unused(bench); /* their hops wait for it */
    for (unsigned i = 0; i < bench->options.streams; i++) {
        (void)pthread_join(bench->hop[i].thread, NULL);
        (void)pthread_join(bench->back[i], NULL);
        (void)close(bench->hop[i].from);
        (void)close(bench->hop[i].to);
    }
    assert_false(bench->guest.logging);
    return outcome;
}

static void bench_free(struct bench *bench)
{
    close_unused(bench);
    fake_guest_free(&bench->guest);
    fake_guest_free(&bench->arrived);
    progress_destroy(&bench->progress);
    progress_destroy(&bench->receive_progress);
}

static void assert_arrived(struct bench *bench)
{
    enum precopy_outcome outcome = bench_migrate(bench);

    if (outcome != PRECOPY_COMPLETED)
        fail_msg("outcome %d: %s; at the destination: %s", (int)outcome, bench->err.text,
                 bench->receive_err.text);
    assert_int_equal(bench->received, RECEIVE_RUNNING);
    assert_true(fake_guest_equal(&bench->guest, &bench->arrived));
}

static void test_busy(void **state)
{
    static const unsigned counts[] = {1, 2, 3, 4, 16};

    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (unsigned seed = 1; seed <= 4; seed++) {
            struct bench bench;

            bench_init(&bench, counts[i]);
            fake_guest_run(&bench.guest, seed);
            assert_arrived(&bench);
            bench_free(&bench);
        }
    }
}

/* What a slow stream still carries of round n must not overwrite what another brings in round n+1.
 */
static void test_a_delayed_stream(void **state)
{
    (void)state;
    for (unsigned slow = 0; slow < 3; slow++) {
        for (unsigned seed = 1; seed <= 3; seed++) {
            struct bench bench;

            bench_init(&bench, 3);
            bench.hop[slow].delay_us = 3000;
            fake_guest_run(&bench.guest, seed);
            assert_arrived(&bench);
            bench_free(&bench);
        }
    }
}

/* The others have nothing to say for several deadlines, while one still brings its share. */
static void test_patience_with_a_slow_stream(void **state)
{
    (void)state;
    for (unsigned slow = 0; slow < 2; slow++) {
        struct bench bench;

        bench_init_with(&bench, 2, 600 * CLOCK_NS_PER_MS);
        bench.hop[slow].delay_us = 30000; /* some 100 pieces */
        assert_arrived(&bench);
        bench_free(&bench);
    }
}

/* What a handover will take holds two round trips, and neither what the sockets held at the end of
 * a round nor what the destination needed to say HELLO. */
static void test_round_trip(void **state)
{
    (void)state;
    for (unsigned slow_hello = 0; slow_hello < 2; slow_hello++) {
        struct bench bench;
        struct progress_view view;

        bench_init(&bench, 1);
        bench.hop[0].delay_us = slow_hello ? 600000 : 150000;
        if (slow_hello)
            bench.hop[0].delay_until = 1;
        else /* three pieces wait or more when the round is sent */
            bench.hop[0].delay_after = (sizes[0] + sizes[1]) / 2 * MIGRATE_PAGE_BYTES - 300000;
        assert_arrived(&bench);
        progress_get(&bench.progress, &view);
        assert_true(view.predicted_downtime_ns < 500 * CLOCK_NS_PER_MS);
        bench_free(&bench);
    }
}

/* Each stream carries a part of the first round, and of a small last one. */
static void test_shares_are_even(void **state)
{
    struct bench bench;
    uint64_t least = UINT64_MAX, most = 0;
    struct progress_view view;

    (void)state;
    bench_init(&bench, 4);
    assert_arrived(&bench);
    progress_get(&bench.progress, &view);
    for (unsigned i = 0; i < 4; i++) {
        least = view.stream_bytes[i] < least ? view.stream_bytes[i] : least;
        most = view.stream_bytes[i] > most ? view.stream_bytes[i] : most;
    }
    /* Eight batches or more; one may be more than another's. */
    assert_true(least > 0 && most <= 2 * least);
    bench_free(&bench);
}

static void test_compressed(void **state)
{
    static const enum wire_codec codecs[] = {WIRE_CODEC_ZSTD, WIRE_CODEC_LZ4};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned streams = 1; streams <= 3; streams += 2) {
            struct bench bench;
            struct progress_view view;

            bench_init(&bench, streams);
            bench.options.compress = codecs[i];
            bench.options.compress_level = 1;
            fake_guest_run(&bench.guest, 5);
            assert_arrived(&bench);
            progress_get(&bench.progress, &view);
            /* The fake guest's pages are one byte each, repeated. */
            assert_true(view.sent_bytes < view.data_pages * MIGRATE_PAGE_BYTES / 4);
            assert_true(view.packed_bytes > 0);
            bench_free(&bench);
        }
    }
}

/* Whichever connection breaks, the guest stays, and the reason is told. */
static void test_a_cut_stream(void **state)
{
    (void)state;
    for (unsigned cut = 0; cut < 3; cut++) {
        struct bench bench;

        bench_init(&bench, 3);
        bench.hop[cut].break_after = 1024 * 1024;
        fake_guest_run(&bench.guest, 9);
        assert_int_equal(bench_migrate(&bench), PRECOPY_FAILED);
        assert_int_equal(bench.received, RECEIVE_DISCARDED);
        assert_true(bench.guest.running && !bench.guest.moved && !bench.arrived.ran);
        assert_true(bench.err.text[0] && bench.receive_err.text[0]);
        bench_free(&bench);
    }
}

/* Both ends say why, and where. */
static void test_a_stream_that_never_comes(void **state)
{
    struct bench bench;

    (void)state;
    bench_init(&bench, 2);
    bench.refuse = true;
    assert_int_equal(bench_migrate(&bench), PRECOPY_FAILED);
    assert_int_equal(bench.received, RECEIVE_DISCARDED);
    assert_non_null(strstr(bench.err.text, "before the first round: stream 1: connection refused"));
    assert_non_null(strstr(bench.receive_err.text, "connection refused"));
    assert_true(bench.guest.running && !bench.arrived.ran);
    bench_free(&bench);
}

static void test_one_stream_only(void **state)
{
    struct bench bench;
    struct migrate_source source;
    struct migrate_links links = {.next = NULL};

    (void)state;
    bench_init(&bench, 2);
    source = fake_guest_source(&bench.guest);
    links.first = bench.source[0];
    assert_int_equal(precopy_run(&source, &links, &bench.options, &bench.progress, &bench.err),
                     PRECOPY_FAILED);
    assert_non_null(strstr(bench.err.text, "use one stream"));
    channel_close(bench.source[0]);
    channel_close(bench.destination[0]);
    for (unsigned i = 0; i < 2; i++) {
        (void)close(bench.hop[i].from);
        (void)close(bench.hop[i].to);
    }
    bench_free(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_a_delayed_stream),
        cmocka_unit_test(test_patience_with_a_slow_stream),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_shares_are_even),
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_a_cut_stream),
        cmocka_unit_test(test_a_stream_that_never_comes),
        cmocka_unit_test(test_one_stream_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
