/* SPDX-License-Identifier: MIT
 *
 * The io_uring stream: short transfers, deadlines, cancellation, a peer that goes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#include "migrate/channel.h"
#include "vmm/base/clock.h"

#define BIG_BYTES (24u << 20)

static struct channel *open_channel(int in_fd, int out_fd, uint64_t deadline_ns, int cancel_fd)
{
    struct channel_options options = {.deadline_ns = deadline_ns, .cancel_fd = cancel_fd};
    struct channel *channel;
    struct error err;

    assert_int_equal(channel_open(&channel, in_fd, out_fd, &options, &err), 0);
    return channel;
}

struct slow_reader {
    int fd;
    uint8_t *bytes;
};

/* Reads in odd pieces with pauses, so that sends come back short. */
static void *read_slowly(void *opaque)
{
    struct slow_reader *reader = opaque;
    size_t done = 0;

    for (unsigned i = 0; done < BIG_BYTES; i++) {
        size_t want = i % 16 == 0 ? 7 : 301313;
        ssize_t got = read(reader->fd, reader->bytes + done,
                           want < BIG_BYTES - done ? want : BIG_BYTES - done);

        if (got <= 0)
            break;
        done += (size_t)got;
        if (i % 16 == 0)
            (void)usleep(1000);
    }
    return NULL;
}

static void send_big(int send_fd, int receive_fd)
{
    struct channel *channel = open_channel(send_fd, dup(send_fd), 5 * CLOCK_NS_PER_SEC, -1);
    uint8_t *out = malloc(BIG_BYTES);
    struct slow_reader reader = {.fd = receive_fd, .bytes = calloc(1, BIG_BYTES)};
    struct iovec vectors[64];
    pthread_t thread;
    size_t piece = BIG_BYTES / 64;

    for (size_t i = 0; i < BIG_BYTES; i++)
        out[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < 64; i++)
        vectors[i] = (struct iovec){.iov_base = out + i * piece, .iov_len = piece};
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    assert_int_equal(channel_send(channel, vectors, 64, NULL), 0);
    (void)pthread_join(thread, NULL);
    assert_memory_equal(out, reader.bytes, BIG_BYTES);
    assert_int_equal(channel_sent_bytes(channel), BIG_BYTES);
    channel_close(channel);
    (void)close(receive_fd);
    free(out);
    free(reader.bytes);
}

static void test_short_sends(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    send_big(fds[0], fds[1]);
}

static void test_pipe(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    send_big(fds[1], fds[0]);
}

static void test_deadlines(void **state)
{
    struct channel *channel;
    uint8_t byte;
    uint8_t *big = calloc(1, BIG_BYTES);
    struct iovec in = {.iov_base = &byte, .iov_len = 1};
    struct iovec out = {.iov_base = big, .iov_len = BIG_BYTES};
    struct error err;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    channel = open_channel(fds[0], fds[0], 50 * CLOCK_NS_PER_MS, -1);
    assert_int_equal(channel_receive(channel, &in, 1, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "silent"));
    assert_int_equal(channel_send(channel, &out, 1, &err), -ETIMEDOUT); /* nobody reads */
    assert_int_equal(channel_wait_readable(channel, CLOCK_NS_PER_MS, &err), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(channel_wait_readable(channel, CLOCK_NS_PER_SEC, &err), 1);
    /* A request given up must not have stolen the byte. */
    assert_int_equal(channel_receive(channel, &in, 1, &err), 0);
    assert_int_equal(byte, 'x');
    channel_close(channel);
    (void)close(fds[1]);
    free(big);
}

static void *drip(void *opaque)
{
    for (unsigned i = 0; i < 200 && write(*(int *)opaque, "d", 1) == 1; i++)
        (void)usleep(10000);
    return NULL;
}

/* Bytes that drip renew the deadline of a copy, but not that of a bounded step. */
static void test_bound(void **state)
{
    struct channel *channel;
    uint8_t bytes[1000];
    struct iovec in = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct error err;
    uint64_t outer;
    pthread_t thread;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    channel = open_channel(fds[0], fds[0], 100 * CLOCK_NS_PER_MS, -1);
    assert_int_equal(pthread_create(&thread, NULL, drip, &fds[1]), 0);
    outer = channel_bound(channel);
    assert_int_equal(channel_receive(channel, &in, 1, &err), -ETIMEDOUT);
    channel_unbound(channel, outer);
    in = (struct iovec){.iov_base = bytes, .iov_len = 40};
    assert_int_equal(channel_receive(channel, &in, 1, &err), 0);
    (void)pthread_join(thread, NULL);
    channel_close(channel);
    (void)close(fds[1]);
}

static void test_peer_goes(void **state)
{
    struct channel *channel;
    uint8_t bytes[64];
    struct iovec in = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct iovec out = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct error err;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    channel = open_channel(fds[0], fds[0], CLOCK_NS_PER_SEC, -1);
    assert_int_equal(write(fds[1], "12345", 5), 5);
    (void)close(fds[1]);
    assert_int_equal(channel_receive(channel, &in, 1, &err), -ECONNRESET);
    assert_non_null(strstr(err.text, "at byte 5"));
    assert_int_equal(channel_send(channel, &out, 1, &err), -ECONNRESET); /* no SIGPIPE either */
    channel_close(channel);
}

static void *cancel_later(void *opaque)
{
    uint64_t one = 1;

    (void)usleep(20000);
    (void)!write(*(int *)opaque, &one, sizeof(one));
    return NULL;
}

static void test_cancel(void **state)
{
    int cancel_fd = eventfd(0, 0);
    struct channel *channel;
    uint8_t byte = 0;
    struct iovec in = {.iov_base = &byte, .iov_len = 1};
    struct error err;
    pthread_t thread;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    channel = open_channel(fds[0], fds[0], 30 * CLOCK_NS_PER_SEC, cancel_fd);
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &cancel_fd), 0);
    assert_int_equal(channel_receive(channel, &in, 1, &err), -ECANCELED);
    (void)pthread_join(thread, NULL);
    assert_int_equal(write(fds[1], "y", 1), 1);
    assert_int_equal(channel_receive(channel, &in, 1, &err), -ECANCELED);
    channel_forget_cancel(channel);
    assert_int_equal(channel_receive(channel, &in, 1, &err), 0);
    assert_int_equal(byte, 'y');
    channel_close(channel);
    (void)close(fds[1]);
    (void)close(cancel_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_sends), cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_deadlines),   cmocka_unit_test(test_bound),
        cmocka_unit_test(test_peer_goes),   cmocka_unit_test(test_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
