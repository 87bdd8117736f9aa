/* SPDX-License-Identifier: MIT
 *
 * Snapshots of a fake guest that writes while it is saved: what comes back is what the guest held
 * in the pause. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/snapshot_read.h"
#include "tests/unit/snapshot_fixture.h"

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
        assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
        assert_false(f.guest.running);
        assert_int_equal(fixture_restore(f.path, false, &copy, &f.err), RECEIVE_RUNNING);
        assert_true(fake_guest_equal(&f.guest, &copy));
        assert_true(copy.ran_running);
        assert_string_equal(copy.state, "the state of a fake guest");
        fake_guest_free(&copy);
        assert_int_equal(fixture_files_in(f.directory), 1);
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
    assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
    assert_true(f.guest.running);
    progress_get(&f.progress, &view);
    assert_int_equal(view.phase, PROGRESS_DONE);
    assert_true(view.paused_ns && view.running_ns >= view.paused_ns &&
                view.ended_ns >= view.running_ns);
    assert_true(view.rounds[0].dirty_pages >= (fixture_sizes[0] + 1) / 2 + fixture_sizes[1] / 2);
    fixture_free(&f);
}

static void test_paused_guest(void **state)
{
    struct fixture f;
    struct fake_guest copy;

    (void)state;
    fixture_init(&f);
    f.guest.running = false;
    assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
    assert_false(f.guest.running);
    assert_int_equal(fixture_restore(f.path, false, &copy, &f.err), RECEIVE_RUNNING);
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
    assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
    assert_int_equal(fixture_restore(f.path, true, &copy, &f.err), RECEIVE_RUNNING);
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
    uint64_t touched = ((fixture_sizes[0] + 1) / 2 + fixture_sizes[1] / 2) * MIGRATE_PAGE_BYTES;

    (void)state;
    fixture_init(&f);
    assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
    assert_int_equal(stat(f.path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_true((uint64_t)info.st_blocks * 512 < touched + 256 * 1024);
    assert_int_equal(fixture_restore(f.path, false, &copy, &f.err), RECEIVE_RUNNING);
    assert_true(resident_pages(&copy.layout.region[1]) <= fixture_sizes[1] / 2 + 1);
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
    assert_int_equal(fixture_save(&f), PRECOPY_COMPLETED);
    (void)pthread_join(thread, NULL);
    assert_int_equal(snapshot_reader_open(&reader, f.path, &f.err), 0);
    assert_int_equal(snapshot_reader_walk(&reader, zero_counts, &count, &f.err), 0);
    assert_true(count >= 64);
    hole = lseek(reader.fd, (off_t)reader.header.region[0].offset, SEEK_DATA);
    assert_true(hole >= (off_t)(reader.header.region[0].offset + 64ull * MIGRATE_PAGE_BYTES));
    snapshot_reader_close(&reader);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy),         cmocka_unit_test(test_runs_on),
        cmocka_unit_test(test_paused_guest), cmocka_unit_test(test_restored_paused),
        cmocka_unit_test(test_sparse),       cmocka_unit_test(test_zeroed_page_is_punched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
