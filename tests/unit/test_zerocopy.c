/* SPDX-License-Identifier: MIT
 *
 * Zero-copy sends over TCP loopback, where the kernel copies all the same and says so. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/channel.h"
#include "tests/unit/tcp_pair.h"
#include "vmm/base/clock.h"

#define PIECE_BYTES (1u << 20)
#define PIECES      40u

struct reader {
    int fd;
    uint8_t *bytes;
    size_t done;
};

static void *read_all(void *opaque)
{
    struct reader *reader = opaque;
    ssize_t got;

    while ((got = read(reader->fd, reader->bytes + reader->done, PIECE_BYTES)) > 0)
        reader->done += (size_t)got;
    return NULL;
}

static void fill(uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 131 + i / 4096);
}

/* Sends pieces with a head each and returns what became of the channel's zero-copy. */
static enum channel_zerocopy send_pieces(enum channel_zerocopy wanted, uint64_t *zerocopy_bytes)
{
    struct channel_options options = {.deadline_ns = 10 * CLOCK_NS_PER_SEC, .cancel_fd = -1};
    size_t total = (size_t)PIECES * (PIECE_BYTES + 64);
    uint8_t *sent = malloc(PIECE_BYTES), *expected = malloc(total);
    struct reader reader = {.bytes = malloc(total + PIECE_BYTES)};
    enum channel_zerocopy became;
    struct channel *channel;
    struct error err = {.text = ""};
    pthread_t thread;
    int fds[2];

    assert_true(sent && expected && reader.bytes);
    fill(sent, PIECE_BYTES);
    tcp_pair(fds);
    assert_int_equal(channel_open(&channel, fds[0], fds[0], &options, &err), 0);
    assert_int_equal(channel_use_zerocopy(channel, wanted, &err), 0);
    reader.fd = fds[1];
    assert_int_equal(pthread_create(&thread, NULL, read_all, &reader), 0);
    for (unsigned i = 0; i < PIECES; i++) {
        uint8_t head[64];
        struct iovec vectors[3] = {{head, sizeof(head)},
                                   {sent, PIECE_BYTES / 2},
                                   {sent + PIECE_BYTES / 2, PIECE_BYTES / 2}};

        memset(head, (int)i, sizeof(head));
        memcpy(expected + (size_t)i * (PIECE_BYTES + 64), head, sizeof(head));
        memcpy(expected + (size_t)i * (PIECE_BYTES + 64) + 64, sent, PIECE_BYTES);
        if (channel_send_pages(channel, vectors, NULL, 3, &err))
            fail_msg("%s", err.text);
        memset(head, 0xee, sizeof(head)); /* the head is the caller's again at once */
    }
    if (channel_settle(channel, &err))
        fail_msg("%s", err.text);
    assert_int_equal(channel_sent_bytes(channel), total);
    *zerocopy_bytes = channel_zerocopy_bytes(channel);
    became = channel_zerocopy_state(channel);
    channel_close(channel);
    (void)pthread_join(thread, NULL);
    assert_int_equal(reader.done, total);
    assert_memory_equal(reader.bytes, expected, total);
    (void)close(fds[1]);
    free(sent);
    free(expected);
    free(reader.bytes);
    return became;
}

static void test_on(void **state)
{
    struct channel_options options = {.deadline_ns = CLOCK_NS_PER_SEC, .cancel_fd = -1};
    struct channel *channel;
    struct error err;
    uint64_t bytes;
    int fds[2], rc;

    (void)state;
    tcp_pair(fds);
    assert_int_equal(channel_open(&channel, fds[0], fds[0], &options, &err), 0);
    rc = channel_use_zerocopy(channel, CHANNEL_ZEROCOPY_ON, &err);
    channel_close(channel);
    (void)close(fds[1]);
    if (rc)
        skip(); /* a kernel before 6.1 */
    assert_int_equal(send_pieces(CHANNEL_ZEROCOPY_ON, &bytes), CHANNEL_ZEROCOPY_ON);
    assert_int_equal(bytes, (uint64_t)PIECES * PIECE_BYTES);
}

/* Loopback copies: auto must notice and stop. */
static void test_auto_stops(void **state)
{
    enum channel_zerocopy became;
    uint64_t bytes;

    (void)state;
    became = send_pieces(CHANNEL_ZEROCOPY_AUTO, &bytes);
    assert_true(became == CHANNEL_ZEROCOPY_COPIED || became == CHANNEL_ZEROCOPY_UNSUPPORTED);
    assert_true(bytes < (uint64_t)PIECES * PIECE_BYTES);
}

static void test_off(void **state)
{
    uint64_t bytes;

    (void)state;
    assert_int_equal(send_pieces(CHANNEL_ZEROCOPY_OFF, &bytes), CHANNEL_ZEROCOPY_OFF);
    assert_int_equal(bytes, 0);
}

static void test_not_over_unix(void **state)
{
    struct channel_options options = {.deadline_ns = CLOCK_NS_PER_SEC, .cancel_fd = -1};
    struct channel *channel;
    struct error err;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(channel_open(&channel, fds[0], fds[0], &options, &err), 0);
    assert_int_equal(channel_use_zerocopy(channel, CHANNEL_ZEROCOPY_ON, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "needs TCP"));
    assert_int_equal(channel_use_zerocopy(channel, CHANNEL_ZEROCOPY_AUTO, &err), 0);
    assert_int_equal(channel_zerocopy_state(channel), CHANNEL_ZEROCOPY_UNSUPPORTED);
    channel_close(channel);
    (void)close(fds[1]);
}

/* Reads eight pages' worth a tick until told to stop. */
struct slow_reader {
    int fd;
    bool silent, stop;
};

static void *read_slowly(void *opaque)
{
    struct slow_reader *reader = opaque;
    static const struct timespec tick = {.tv_nsec = 40000000};
    uint8_t bytes[8192];

    while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
        (void)nanosleep(&tick, NULL);
        if (!reader->silent)
            (void)!recv(reader->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    }
    return NULL;
}

/* What becomes of a wait for the kernel to be done with pages that take many deadlines to go. */
static int settle_slowly(bool silent, bool shut, struct error *err)
{
    struct channel_options options = {.deadline_ns = 400 * CLOCK_NS_PER_MS, .cancel_fd = -1};
    struct slow_reader reader = {.silent = silent};
    size_t bytes = 192 * 1024;
    uint8_t *pages = aligned_alloc(4096, bytes);
    struct iovec vectors[2] = {{pages, 64}, {pages, bytes}};
    int small = 4096, large = 1 << 20, fds[2], rc;
    struct channel *channel;
    pthread_t thread;

    assert_non_null(pages);
    memset(pages, 7, bytes);
    tcp_pair(fds);
    reader.fd = fds[1];
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &large, sizeof(large)), 0);
    if (shut)
        options.deadline_ns = 60 * CLOCK_NS_PER_SEC;
    assert_int_equal(channel_open(&channel, fds[0], fds[0], &options, err), 0);
    rc = channel_use_zerocopy(channel, CHANNEL_ZEROCOPY_ON, err);
    if (rc) {
        channel_close(channel);
        skip(); /* a kernel before 6.1 */
    }
    assert_int_equal(channel_send_pages(channel, vectors, NULL, 2, err), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    if (shut)
        channel_shut(channel, true);
    rc = channel_settle(channel, err);
    __atomic_store_n(&reader.stop, true, __ATOMIC_RELAXED);
    (void)pthread_join(thread, NULL);
    channel_close(channel);
    (void)close(fds[1]);
    free(pages);
    return rc;
}

static void test_a_thin_link_is_not_silent(void **state)
{
    struct error err = {.text = ""};

    (void)state;
    if (settle_slowly(false, false, &err))
        fail_msg("%s", err.text);
}

static void test_a_silent_peer(void **state)
{
    struct error err = {.text = ""};

    (void)state;
    assert_int_equal(settle_slowly(true, false, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "silent"));
}

static void test_a_shut_channel_is_not_waited_for(void **state)
{
    struct error err = {.text = ""};
    uint64_t begin_ns = clock_now_ns();

    (void)state;
    assert_int_equal(settle_slowly(true, true, &err), -ECONNRESET);
    assert_true(clock_now_ns() - begin_ns < 50 * CLOCK_NS_PER_SEC); /* of a deadline of 60 s */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on),
        cmocka_unit_test(test_auto_stops),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_not_over_unix),
        cmocka_unit_test(test_a_thin_link_is_not_silent),
        cmocka_unit_test(test_a_silent_peer),
        cmocka_unit_test(test_a_shut_channel_is_not_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
