/* SPDX-License-Identifier: MIT
 *
 * Snapshots of a fake guest that writes while it is saved: what comes back is what the guest held
 * in the pause, and whatever fails leaves the guest and the old file as they were. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/snapshot_load.h"
#include "migrate/snapshot_read.h"
#include "migrate/snapshot_save.h"
#include "tests/unit/fake_guest.h"
#include "vmm/base/clock.h"

static const uint64_t sizes[FAKE_REGIONS] = {2048 + 37, 4096};

struct fixture {
    char directory[64];
    char path[96];
    struct fake_guest guest;
    struct progress progress;
    struct snapshot_options options;
    struct error err;
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    /* Memory where there is some: nobody has to wait for a disk. */
    (void)strcpy(f->directory, access("/dev/shm", W_OK) ? "/tmp/pageferry-unit.XXXXXX"
                                                        : "/dev/shm/pageferry-unit.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->path, sizeof(f->path), "%s/guest.snap", f->directory);
    fake_guest_init(&f->guest, sizes, true);
    progress_init(&f->progress);
    f->options = (struct snapshot_options){
        .copy = {.downtime_limit_ns = 20 * CLOCK_NS_PER_MS, .chunk_pages = 512}, .cancel_fd = -1};
}

/* Nothing but the file itself may be left in its directory. */
static unsigned files_in(const char *directory)
{
    DIR *dir = opendir(directory);
    unsigned count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    (void)closedir(dir);
    return count;
}

static void fixture_free(struct fixture *f)
{
    fake_guest_free(&f->guest);
    progress_destroy(&f->progress);
    (void)unlink(f->path);
    assert_int_equal(rmdir(f->directory), 0);
}

static enum precopy_outcome save(struct fixture *f)
{
    struct migrate_source source = fake_guest_source(&f->guest);
    enum precopy_outcome outcome =
        snapshot_save_run(&source, f->path, &f->options, &f->progress, &f->err);

    assert_false(f->guest.logging);
    assert_false(f->guest.moved);
    assert_int_equal(f->guest.pauses, f->guest.resumes);
    return outcome;
}

static enum receive_outcome restore(const char *path, bool paused, struct fake_guest *into,
                                    struct error *err)
{
    struct migrate_sink sink = fake_guest_sink(into);
    struct snapshot_load_options options = {.paused = paused, .cancel_fd = -1};
    struct progress progress;
    enum receive_outcome outcome;

    fake_guest_init(into, sizes, false);
    progress_init(&progress);
    err->text[0] = '\0';
    outcome = snapshot_load_run(&sink, path, &options, &progress, err);
    progress_destroy(&progress);
    return outcome;
}

/* Saved, it stands still: then it is equal to what comes back. */
static void test_busy(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 10; seed++) {
        struct fixture f;
        struct fake_guest copy;

        fixture_init(&f);
        f.options.stop = true;
        fake_guest_run(&f.guest, seed);
        assert_int_equal(save(&f), PRECOPY_COMPLETED);
        assert_false(f.guest.running);
        assert_int_equal(restore(f.path, false, &copy, &f.err), RECEIVE_RUNNING);
        assert_true(fake_guest_equal(&f.guest, &copy));
        assert_true(copy.ran_running);
        assert_string_equal(copy.state, "the state of a fake guest");
        fake_guest_free(&copy);
        assert_int_equal(files_in(f.directory), 1);
        fixture_free(&f);
    }
}

static void test_runs_on(void **state)
{
    struct fixture f;
    struct progress_view view;

    (void)state;
    fixture_init(&f);
    fake_guest_run(&f.guest, 3);
    assert_int_equal(save(&f), PRECOPY_COMPLETED);
    assert_true(f.guest.running);
    progress_get(&f.progress, &view);
    assert_int_equal(view.phase, PROGRESS_DONE);
    assert_true(view.paused_ns && view.running_ns >= view.paused_ns &&
                view.ended_ns >= view.running_ns);
    assert_true(view.rounds[0].dirty_pages >= (sizes[0] + 1) / 2 + sizes[1] / 2);
    fixture_free(&f);
}

static void test_paused_guest(void **state)
{
    struct fixture f;
    struct fake_guest copy;

    (void)state;
    fixture_init(&f);
    f.guest.running = false;
    assert_int_equal(save(&f), PRECOPY_COMPLETED);
    assert_false(f.guest.running);
    assert_int_equal(restore(f.path, false, &copy, &f.err), RECEIVE_RUNNING);
    assert_false(copy.ran_running);
    assert_true(fake_guest_equal(&f.guest, &copy));
    fake_guest_free(&copy);
    fixture_free(&f);
}

static void test_restored_paused(void **state)
{
    struct fixture f;
    struct fake_guest copy;

    (void)state;
    fixture_init(&f);
    assert_int_equal(save(&f), PRECOPY_COMPLETED);
    assert_int_equal(restore(f.path, true, &copy, &f.err), RECEIVE_RUNNING);
    assert_true(copy.ran && !copy.ran_running);
    fake_guest_free(&copy);
    fixture_free(&f);
}

static unsigned resident_pages(const struct migrate_region *region)
{
    unsigned char *present = malloc((size_t)region->npages);
    unsigned count = 0;

    assert_int_equal(mincore(region->hva, region->npages * MIGRATE_PAGE_BYTES, present), 0);
    for (uint64_t i = 0; i < region->npages; i++)
        count += present[i] & 1u;
    free(present);
    return count;
}

/* Half of the pages were never touched: neither the file nor the restored guest has them. */
static void test_sparse(void **state)
{
    struct fixture f;
    struct fake_guest copy;
    struct stat info;
    uint64_t touched = ((sizes[0] + 1) / 2 + sizes[1] / 2) * MIGRATE_PAGE_BYTES;

    (void)state;
    fixture_init(&f);
    assert_int_equal(save(&f), PRECOPY_COMPLETED);
    assert_int_equal(stat(f.path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_true((uint64_t)info.st_blocks * 512 < touched + 256 * 1024);
    assert_int_equal(restore(f.path, false, &copy, &f.err), RECEIVE_RUNNING);
    assert_true(resident_pages(&copy.layout.region[1]) <= sizes[1] / 2 + 1);
    fake_guest_free(&copy);
    fixture_free(&f);
}

/* A page that holds something in round 0 and zeros later: a hole, and zero in the map. */
static int zero_counts(void *opaque, unsigned region, uint64_t granule,
                       const struct snapshot_entry *entry, struct error *err)
{
    uint64_t *count = opaque;

    (void)region;
    (void)granule;
    (void)err;
    for (unsigned i = 0; i < SNAPSHOT_GRANULE_WORDS; i++)
        *count += (uint64_t)__builtin_popcountll(entry->zero[i]);
    return 0;
}

static void *zero_later(void *opaque)
{
    struct fixture *f = opaque;
    struct progress_view view;

    do {
        (void)usleep(1000);
        progress_get(&f->progress, &view);
    } while (view.sent_bytes < 1024 * 1024);
    (void)pthread_mutex_lock(&f->guest.store);
    for (uint64_t page = 0; page < 64; page++) {
        memset(f->guest.layout.region[0].hva + page * MIGRATE_PAGE_BYTES, 0, MIGRATE_PAGE_BYTES);
        f->guest.dirty[0][page / 64] |= 1ull << (page % 64);
        f->guest.touched[0][page / 64] |= 1ull << (page % 64);
    }
    (void)pthread_mutex_unlock(&f->guest.store);
    return NULL;
}

static void test_zeroed_page_is_punched(void **state)
{
    struct fixture f;
    struct snapshot_reader reader;
    pthread_t thread;
    uint64_t count = 0;
    off_t hole;

    (void)state;
    fixture_init(&f);
    f.options.stop = true;
    f.options.copy.max_bandwidth = 24ull * 1024 * 1024;
    assert_int_equal(pthread_create(&thread, NULL, zero_later, &f), 0);
    assert_int_equal(save(&f), PRECOPY_COMPLETED);
    (void)pthread_join(thread, NULL);
    assert_int_equal(snapshot_reader_open(&reader, f.path, &f.err), 0);
    assert_int_equal(snapshot_reader_walk(&reader, zero_counts, &count, &f.err), 0);
    assert_true(count >= 64);
    hole = lseek(reader.fd, (off_t)reader.header.region[0].offset, SEEK_DATA);
    assert_true(hole >= (off_t)(reader.header.region[0].offset + 64ull * MIGRATE_PAGE_BYTES));
    snapshot_reader_close(&reader);
    fixture_free(&f);
}

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
    assert_int_equal(files_in(f->directory), 1);
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
    assert_int_equal(save(&f), PRECOPY_CANCELLED);
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
        assert_int_equal(save(&f), PRECOPY_CANCELLED);
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
    assert_int_equal(save(&f), PRECOPY_FAILED);
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
        assert_int_equal(save(&f), PRECOPY_FAILED);
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
        assert_int_equal(save(&f), late ? PRECOPY_COMPLETED : PRECOPY_FAILED);
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
    assert_int_equal(save(&f), PRECOPY_FAILED);
    (void)pthread_join(thread, NULL);
    assert_non_null(strstr(f.err.text, "cannot be put in place"));
    assert_true(f.guest.running);
    assert_int_equal(files_in(f.directory), 1);
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
        assert_int_equal(save(&f), PRECOPY_FAILED);
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
    assert_int_equal(save(&f), PRECOPY_COMPLETED);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake_guest copy;
        struct migrate_sink sink = fake_guest_sink(&copy);
        struct snapshot_load_options options = {.cancel_fd = -1};

        fake_guest_init(&copy, sizes, false);
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
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_runs_on),
        cmocka_unit_test(test_paused_guest),
        cmocka_unit_test(test_restored_paused),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_zeroed_page_is_punched),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_in_the_pause),
        cmocka_unit_test(test_guest_ends),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_guest_ends_late),
        cmocka_unit_test(test_cannot_be_put_in_place),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_failed_restores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
