/* SPDX-License-Identifier: MIT
 *
 * Guest RAM that is a file: sent from the file, received through it, and nothing else is different.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/precopy.h"
#include "migrate/receive.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/tcp_pair.h"
#include "vmm/base/clock.h"

#define MAX_STREAMS 3
#define FILE_BYTES  (3u << 20)

static const uint64_t sizes[FAKE_REGIONS] = {2048 + 37, 4096};

/* ---- whole migrations */

struct bench {
    struct fake_guest guest, arrived;
    struct channel *source[MAX_STREAMS], *destination[MAX_STREAMS];
    unsigned next_source, next_destination;
    struct progress progress, receive_progress;
    struct error err, receive_err;
    enum receive_outcome received;
};

static int next_of(struct channel **channels, unsigned *next, struct channel **out)
{
    *out = channels[(*next)];
    channels[(*next)++] = NULL;
    return 0;
}

static int connect_next(void *opaque, struct channel **out, struct error *err)
{
    struct bench *bench = opaque;

    (void)err;
    return next_of(bench->source, &bench->next_source, out);
}

static int accept_next(void *opaque, struct channel **out, struct error *err)
{
    struct bench *bench = opaque;

    (void)err;
    return next_of(bench->destination, &bench->next_destination, out);
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

static void bench_init(struct bench *bench, unsigned streams, bool source_in_files,
                       bool destination_in_files)
{
    struct channel_options options = {.deadline_ns = 20 * CLOCK_NS_PER_SEC, .cancel_fd = -1};

    memset(bench, 0, sizeof(*bench));
    (source_in_files ? fake_guest_init_in_files : fake_guest_init)(&bench->guest, sizes, true);
    (destination_in_files ? fake_guest_init_in_files : fake_guest_init)(&bench->arrived, sizes,
                                                                        false);
    progress_init(&bench->progress);
    progress_init(&bench->receive_progress);
    bench->next_source = bench->next_destination = 1;
    for (unsigned i = 0; i < streams; i++) {
        int fds[2];

        tcp_pair(fds);
        assert_int_equal(channel_open(&bench->source[i], fds[0], fds[0], &options, NULL), 0);
        assert_int_equal(channel_open(&bench->destination[i], fds[1], fds[1], &options, NULL), 0);
    }
}

static enum precopy_outcome bench_migrate(struct bench *bench, unsigned streams,
                                          enum channel_zerocopy zerocopy)
{
    struct precopy_options options = {.downtime_limit_ns = CLOCK_NS_PER_SEC,
                                      .chunk_pages = 512,
                                      .streams = streams,
                                      .zerocopy = zerocopy};
    struct migrate_source source = fake_guest_source(&bench->guest);
    struct migrate_links links = {.first = bench->source[0], .next = connect_next, .opaque = bench};
    enum precopy_outcome outcome;
    pthread_t receiver;

    assert_int_equal(pthread_create(&receiver, NULL, receive_main, bench), 0);
    outcome = precopy_run(&source, &links, &options, &bench->progress, &bench->err);
    channel_close(bench->source[0]);
    (void)pthread_join(receiver, NULL);
    return outcome;
}

static void bench_free(struct bench *bench)
{
    fake_guest_free(&bench->guest);
    fake_guest_free(&bench->arrived);
    progress_destroy(&bench->progress);
    progress_destroy(&bench->receive_progress);
}

static void moves(unsigned streams, bool source_in_files, bool destination_in_files,
                  enum channel_zerocopy zerocopy)
{
    struct progress_view view;
    struct bench bench;

    bench_init(&bench, streams, source_in_files, destination_in_files);
    fake_guest_run(&bench.guest, streams);
    if (bench_migrate(&bench, streams, zerocopy) != PRECOPY_COMPLETED)
        fail_msg("%s; %s", bench.err.text, bench.receive_err.text);
    assert_int_equal(bench.received, RECEIVE_RUNNING);
    assert_true(fake_guest_equal(&bench.guest, &bench.arrived));
    progress_get(&bench.progress, &view);
    if (source_in_files && view.zerocopy == CHANNEL_ZEROCOPY_AUTO)
        assert_true(view.zerocopy_bytes == view.data_pages * MIGRATE_PAGE_BYTES);
    if (zerocopy == CHANNEL_ZEROCOPY_OFF)
        assert_int_equal(view.zerocopy_bytes, 0);
    bench_free(&bench);
}

static void test_busy_guest(void **state)
{
    (void)state;
    moves(1, true, true, CHANNEL_ZEROCOPY_AUTO);
    moves(3, true, true, CHANNEL_ZEROCOPY_AUTO);
    moves(1, true, true, CHANNEL_ZEROCOPY_OFF);
    moves(2, true, false, CHANNEL_ZEROCOPY_AUTO);
    moves(2, false, true, CHANNEL_ZEROCOPY_AUTO);
}

static void swap_file(struct migrate_region *region, int file)
{
    assert_true(file >= 0);
    (void)close(region->file);
    region->file = file;
}

/* A destination whose file cannot be written to says so, and the guest stays where it is. */
static void test_no_room(void **state)
{
    struct bench bench;

    (void)state;
    bench_init(&bench, 1, true, true);
    swap_file(&bench.arrived.layout.region[1], open("/dev/null", O_RDONLY | O_CLOEXEC));
    assert_int_equal(bench_migrate(&bench, 1, CHANNEL_ZEROCOPY_AUTO), PRECOPY_FAILED);
    assert_int_equal(bench.received, RECEIVE_DISCARDED);
    assert_non_null(strstr(bench.receive_err.text, "writing guest RAM to its file"));
    assert_true(bench.guest.running && !bench.guest.moved && !bench.guest.logging);
    bench_free(&bench);
}

/* A source whose file is not what it says. */
static void test_short_file(void **state)
{
    struct bench bench;

    (void)state;
    bench_init(&bench, 1, true, true);
    swap_file(&bench.guest.layout.region[1], memfd_create("nothing", MFD_CLOEXEC));
    assert_int_equal(bench_migrate(&bench, 1, CHANNEL_ZEROCOPY_AUTO), PRECOPY_FAILED);
    assert_non_null(strstr(bench.err.text, "it is shorter than the RAM"));
    assert_true(!bench.guest.moved && !bench.guest.logging);
    bench_free(&bench);
}

/* ---- one channel */

struct reader {
    int fd;
    unsigned tick_ms; /* before each read; 0: at once */
    size_t done;
    bool stop;
};

static void *read_main(void *opaque)
{
    struct reader *reader = opaque;
    const struct timespec tick = {.tv_nsec = (long)reader->tick_ms * 1000000};
    uint8_t bytes[65536];

    while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
        ssize_t got;

        (void)nanosleep(&tick, NULL);
        got = recv(reader->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got > 0)
            reader->done += (size_t)got;
    }
    return NULL;
}

enum event { NOTHING, CANCEL, CLOSE, SHUT };

struct later {
    enum event event;
    int cancel_fd, peer_fd;
    struct channel *channel;
};

static void *later_main(void *opaque)
{
    struct later *later = opaque;
    const uint64_t one = 1;

    (void)nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    if (later->event == CANCEL)
        assert_int_equal(write(later->cancel_fd, &one, sizeof(one)), sizeof(one));
    else if (later->event == CLOSE)
        (void)shutdown(later->peer_fd, SHUT_RDWR);
    else if (later->event == SHUT)
        channel_shut(later->channel, true);
    return NULL;
}

/* Sends a file to a peer that reads so often, with 0.4 s of patience, or a minute's where something
 * happens meanwhile. */
static int send_file(unsigned tick_ms, bool reads, enum event event, struct error *err)
{
    struct channel_options options = {.deadline_ns =
                                          event ? 60 * CLOCK_NS_PER_SEC : 400 * CLOCK_NS_PER_MS,
                                      .cancel_fd = eventfd(0, EFD_CLOEXEC)};
    struct later later = {.event = event, .cancel_fd = options.cancel_fd};
    struct reader reader = {.tick_ms = tick_ms};
    struct channel_file files[2] = {{-1, 0}, {memfd_create("a file", MFD_CLOEXEC), 0}};
    uint8_t head[64] = {0};
    struct iovec vectors[2] = {{head, sizeof(head)}, {NULL, FILE_BYTES}};
    int small = 65536, minute_ms = 60000, fds[2], rc;
    pthread_t thread, event_thread;

    assert_int_equal(ftruncate(files[1].fd, FILE_BYTES), 0);
    tcp_pair(fds);
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    reader.fd = later.peer_fd = fds[1];
    assert_int_equal(channel_open(&later.channel, fds[0], fds[0], &options, err), 0);
    /* The kernel is not to give up first. */
    assert_int_equal(
        setsockopt(fds[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &minute_ms, sizeof(minute_ms)), 0);
    assert_int_equal(channel_use_zerocopy(later.channel, CHANNEL_ZEROCOPY_AUTO, err), 0);
    if (channel_zerocopy_state(later.channel) != CHANNEL_ZEROCOPY_AUTO)
        skip(); /* a kernel before 6.1 */
    if (reads)
        assert_int_equal(pthread_create(&thread, NULL, read_main, &reader), 0);
    assert_int_equal(pthread_create(&event_thread, NULL, later_main, &later), 0);
    rc = channel_send_pages(later.channel, vectors, files, 2, err);
    (void)pthread_join(event_thread, NULL);
    __atomic_store_n(&reader.stop, true, __ATOMIC_RELAXED);
    if (reads)
        (void)pthread_join(thread, NULL);
    if (!rc)
        assert_int_equal(channel_zerocopy_bytes(later.channel), FILE_BYTES);
    channel_close(later.channel);
    (void)close(fds[1]);
    (void)close(options.cancel_fd);
    (void)close(files[1].fd);
    return rc;
}

static void test_waits(void **state)
{
    struct error err = {.text = ""};
    uint64_t begin_ns;

    (void)state;
    if (send_file(0, true, NOTHING, &err))
        fail_msg("%s", err.text);
    /* A thin link: a megabyte takes longer than the patience, and is not silence. */
    if (send_file(40, true, NOTHING, &err))
        fail_msg("%s", err.text);
    assert_int_equal(send_file(0, false, NOTHING, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "silent"));
    begin_ns = clock_now_ns();
    assert_int_equal(send_file(0, false, CANCEL, &err), -ECANCELED);
    assert_int_equal(send_file(0, false, CLOSE, &err), -ECONNRESET); /* no SIGPIPE either */
    assert_int_equal(send_file(0, false, SHUT, &err), -ECONNRESET);
    assert_true(clock_now_ns() - begin_ns < 50 * CLOCK_NS_PER_SEC); /* of a minute's patience */
}

/* A process that has no descriptor left for a pipe sends from the mapping instead. */
static void test_without_a_pipe(void **state)
{
    struct channel_options options = {.deadline_ns = 10 * CLOCK_NS_PER_SEC, .cancel_fd = -1};
    struct channel_file files[2] = {{-1, 0}, {-1, 0}};
    uint8_t head[64] = {0}, page[4096], got[sizeof(head) + sizeof(page)];
    struct iovec vectors[2] = {{head, sizeof(head)}, {page, sizeof(page)}};
    struct error err = {.text = ""};
    struct rlimit before, none;
    struct channel *channel;
    int fds[2], rc;

    (void)state;
    memset(page, 7, sizeof(page));
    tcp_pair(fds);
    assert_int_equal(channel_open(&channel, fds[0], fds[0], &options, &err), 0);
    assert_int_equal(channel_use_zerocopy(channel, CHANNEL_ZEROCOPY_AUTO, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rc = channel_send_pages(channel, vectors, files, 2, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (rc)
        fail_msg("%s", err.text);
    assert_int_equal(recv(fds[1], got, sizeof(got), MSG_WAITALL), sizeof(got));
    assert_memory_equal(got + sizeof(head), page, sizeof(page));
    channel_close(channel);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_guest),     cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_short_file),     cmocka_unit_test(test_waits),
        cmocka_unit_test(test_without_a_pipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
