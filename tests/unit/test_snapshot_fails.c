/* SPDX-License-Identifier: MIT
 *
 * Whatever fails while a guest is saved or restored leaves the guest and the old file as they were.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/snapshot_format.h"
#include "tests/unit/snapshot_fixture.h"
#include "vmm/base/clock.h"

static void put_old_file(const struct fixture *f)
{
    FILE *file = fopen(f->path, "w");

    assert_non_null(file);
    (void)fputs("old", file);
    (void)fclose(file);
}

static void assert_old_file(const struct fixture *f)
{
    char text[8] = "";
    FILE *file = fopen(f->path, "r");

    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof(text), file), 3);
    (void)fclose(file);
    assert_string_equal(text, "old");
    assert_int_equal(fixture_files_in(f->directory), 1);
}

struct canceller {
    struct fixture *f;
    enum progress_phase from;
    int fd;
};

static void *cancel_later(void *opaque)
{
    struct canceller *c = opaque;
    struct progress_view view;
    uint64_t one = 1;

    do {
        (void)usleep(500);
        progress_get(&c->f->progress, &view);
    } while (view.phase < c->from || view.sent_bytes == 0);
    assert_int_equal(write(c->fd, &one, sizeof(one)), sizeof(one));
    return NULL;
}

static void test_cancel(void **state)
{
    struct fixture f;
    struct canceller c = {.f = &f, .from = PROGRESS_ROUNDS, .fd = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;

    (void)state;
    fixture_init(&f);
    put_old_file(&f);
    f.options.cancel_fd = c.fd;
    f.options.copy.max_bandwidth = 8ull * 1024 * 1024; /* 12 MiB to go */
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
    assert_int_equal(fixture_save(&f), PRECOPY_CANCELLED);
    (void)pthread_join(thread, NULL);
    assert_true(f.guest.running);
    assert_old_file(&f);
    (void)close(c.fd);
    fixture_free(&f);
}

/* In the pause: the limit lets the last round begin with everything still dirty. */
static void test_cancel_in_the_pause(void **state)
{
    for (int stop = 0; stop < 2; stop++) {
        struct fixture f;
        struct canceller c = {.f = &f, .from = PROGRESS_FINAL, .fd = eventfd(0, EFD_CLOEXEC)};
        pthread_t thread;

        (void)state;
        fixture_init(&f);
        put_old_file(&f);
        f.options.stop = stop;
        f.options.cancel_fd = c.fd;
        f.options.copy.downtime_limit_ns = 100 * CLOCK_NS_PER_SEC;
        f.options.copy.max_bandwidth = 16ull * 1024 * 1024;
        fake_guest_run(&f.guest, 5); /* rewrites hundreds of pages meanwhile */
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
        assert_int_equal(fixture_save(&f), PRECOPY_CANCELLED);
        (void)pthread_join(thread, NULL);
        assert_true(f.guest.running);
        assert_old_file(&f);
        (void)close(c.fd);
        fixture_free(&f);
    }
}

static void test_guest_ends(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    put_old_file(&f);
    f.guest.fault = FAKE_FAIL_SYNC;
    assert_int_equal(fixture_save(&f), PRECOPY_FAILED);
    assert_non_null(strstr(f.err.text, "in round 0: the guest ended with code 7"));
    assert_old_file(&f);
    fixture_free(&f);
}

/* A file that may not grow is like a full disk: at every place where that can happen. */
static void test_no_room(void **state)
{
    static const struct {
        bool whole_page_area; /* fits */
        const char *line;
    } cases[] = {{false, "before the first round"}, {true, "while finishing the file"}};

    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rlimit before, limit;
        struct fixture f;
        struct snapshot_header header = {0};

        fixture_init(&f);
        put_old_file(&f);
        fake_guest_run(&f.guest, 9);
        snapshot_header_plan(&header, &f.guest.layout);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = cases[i].whole_page_area ? header.records_offset : 1024 * 1024;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(fixture_save(&f), PRECOPY_FAILED);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_non_null(strstr(f.err.text, cases[i].line));
        assert_non_null(strstr(f.err.text, strerror(EFBIG)));
        assert_true(f.guest.running);
        assert_old_file(&f);
        fixture_free(&f);
    }
}

/* Interrupted because the guest ended, once in the rounds and once when all of it was saved. */
static void test_guest_ends_late(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct fixture f;
        struct canceller c = {.f = &f,
                              .from = late ? PROGRESS_STATE : PROGRESS_ROUNDS,
                              .fd = eventfd(0, EFD_CLOEXEC)};
        pthread_t thread;

        (void)state;
        fixture_init(&f);
        f.guest.fault = FAKE_ENDED;
        f.options.cancel_fd = c.fd;
        if (!late)
            f.options.copy.max_bandwidth = 8ull * 1024 * 1024;
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
        assert_int_equal(fixture_save(&f), late ? PRECOPY_COMPLETED : PRECOPY_FAILED);
        (void)pthread_join(thread, NULL);
        if (!late)
            assert_non_null(strstr(f.err.text, "in round 0: the guest ended with code 9"));
        (void)close(c.fd);
        fixture_free(&f);
    }
}

static void *get_in_the_way(void *opaque)
{
    struct fixture *f = opaque;
    struct progress_view view;

    do {
        (void)usleep(500);
        progress_get(&f->progress, &view);
    } while (view.phase < PROGRESS_ROUNDS);
    assert_int_equal(mkdir(f->path, 0700), 0);
    return NULL;
}

/* The last step fails: what had its temporary name by then is gone. */
static void test_cannot_be_put_in_place(void **state)
{
    struct fixture f;
    pthread_t thread;

    (void)state;
    fixture_init(&f);
    f.options.copy.max_bandwidth = 64ull * 1024 * 1024;
    assert_int_equal(pthread_create(&thread, NULL, get_in_the_way, &f), 0);
    assert_int_equal(fixture_save(&f), PRECOPY_FAILED);
    (void)pthread_join(thread, NULL);
    assert_non_null(strstr(f.err.text, "cannot be put in place"));
    assert_true(f.guest.running);
    assert_int_equal(fixture_files_in(f.directory), 1);
    assert_int_equal(rmdir(f.path), 0);
    fixture_free(&f);
}

static void test_bad_names(void **state)
{
    static const char *const names[][2] = {{"/nowhere/at/all/x", "No such file"},
                                           {"/tmp/", "names no file"},
                                           {"/tmp", "no regular file"},
                                           {"/dev/full", "no regular file"}};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fixture f;

        fixture_init(&f);
        (void)unlink(f.path);
        (void)snprintf(f.path, sizeof(f.path), "%s", names[i][0]);
        assert_int_equal(fixture_save(&f), PRECOPY_FAILED);
        assert_non_null(strstr(f.err.text, names[i][1]));
        (void)snprintf(f.path, sizeof(f.path), "%s/none", f.directory);
        fixture_free(&f);
    }
}

static void test_failed_restores(void **state)
{
    static const struct {
        enum fake_fault fault;
        const char *line;
    } cases[] = {{FAKE_FAIL_CHECK, "avx512f"},
                 {FAKE_FAIL_CREATE, "too little memory"},
                 {FAKE_FAIL_LOAD, "does not know"}};
    struct fixture f;

    (void)state;
    fixture_init(&f);
    assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake_guest copy;
        struct migrate_sink sink = fake_guest_sink(&copy);
        struct snapshot_load_options options = {.cancel_fd = -1};

        fake_guest_init(&copy, fixture_sizes, false);
        copy.fault = cases[i].fault;
        assert_int_equal(snapshot_load_run(&sink, f.path, &options, &f.progress, &f.err),
                         RECEIVE_DISCARDED);
        assert_non_null(strstr(f.err.text, cases[i].line));
        assert_int_equal(copy.created, copy.discarded);
        fake_guest_free(&copy);
    }
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),          cmocka_unit_test(test_cancel_in_the_pause),
        cmocka_unit_test(test_guest_ends),      cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_guest_ends_late), cmocka_unit_test(test_cannot_be_put_in_place),
        cmocka_unit_test(test_bad_names),       cmocka_unit_test(test_failed_restores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
