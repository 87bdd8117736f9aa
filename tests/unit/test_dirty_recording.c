/* SPDX-License-Identifier: MIT
 *
 * Recorded dirty bitmaps: there and back, recorders that fail, and the corpus. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "recording_fixture.h"
#include "tools/dirty_recording.h"

static void there_and_back(void **state)
{
    const struct folder *folder = *state;
    struct error err = {""};
    struct stat info;

    recording_fixture_record(folder);
    if (recording_fixture_load(folder, &err))
        fail_msg("%s", err.text);
    assert_int_equal(recording_fixture_count_files(folder), 1);
    assert_int_equal(stat(folder->file, &info), 0);
    assert_true(info.st_size < MAX_BYTES);
    /* Again, over what is there. */
    recording_fixture_record(folder);
    if (recording_fixture_load(folder, &err))
        fail_msg("%s", err.text);
}

static void leaves_nothing_behind(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recorder *recorder;
    struct error err = {""};

    recording_fixture_record(folder);
    recorder = recording_fixture_must_open(folder);
    recording_fixture_add_round(recorder, 1, 64);
    assert_int_equal(dirty_recorder_end_round(recorder, &err), 0);
    assert_int_equal(recording_fixture_count_files(folder), 2);
    dirty_recorder_discard(recorder);
    dirty_recorder_discard(NULL);
    assert_int_equal(recording_fixture_count_files(folder), 1);
    assert_int_equal(recording_fixture_load(folder, &err), 0); /* what was there is as it was */

    recorder = recording_fixture_must_open(folder);
    recording_fixture_add_round(recorder, 1, 64);
    dirty_recorder_drop_round(recorder);
    assert_int_equal(dirty_recorder_close(recorder, &err), -ENODATA);
    assert_non_null(strstr(err.text, "no round was complete"));
    assert_int_equal(recording_fixture_count_files(folder), 1);
    assert_int_equal(recording_fixture_load(folder, &err), 0);
}

/* What a dropped round added must not show in the next one. */
static void drops_a_round(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recorder *recorder = recording_fixture_must_open(folder);
    struct error err = {""};

    for (unsigned round = 0; round < NROUNDS; round++) {
        recording_fixture_add_round(recorder, 0, 128);
        dirty_recorder_drop_round(recorder);
        recording_fixture_add_round(recorder, round, 128);
        assert_int_equal(dirty_recorder_end_round(recorder, &err), 0);
    }
    recording_fixture_add_round(recorder, 3, 128);
    dirty_recorder_drop_round(recorder);
    assert_int_equal(dirty_recorder_close(recorder, &err), 0);
    assert_int_equal(recording_fixture_load(folder, &err), 0);
}

static void refuses_bad_places(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recorder *recorder;
    struct error err = {""};

    assert_int_equal(
        dirty_recorder_open(&recorder, folder->path, recording_fixture_layout, NREGIONS, &err),
        -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(
        dirty_recorder_open(&recorder, "/dev/null", recording_fixture_layout, NREGIONS, &err),
        -EINVAL);
    assert_int_equal(
        dirty_recorder_open(&recorder, "/nonexistent/x", recording_fixture_layout, NREGIONS, &err),
        -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
    assert_null(recorder);
}

/* A file that may not grow stands for a full disk: the first write, then the last. */
static void fails_as_a_disk_does(void **state)
{
    const struct folder *folder = *state;
    struct rlimit whole, limit;
    struct dirty_recorder *recorder;
    struct error err = {""};
    struct stat info;

    recording_fixture_record(folder);
    assert_int_equal(stat(folder->file, &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    limit = (struct rlimit){.rlim_cur = 8, .rlim_max = whole.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(
        dirty_recorder_open(&recorder, folder->file, recording_fixture_layout, NREGIONS, &err),
        -EFBIG);
    limit.rlim_cur = (rlim_t)info.st_size - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    recorder = recording_fixture_must_open(folder);
    for (unsigned round = 0; round < NROUNDS; round++) {
        recording_fixture_add_round(recorder, round, 64);
        assert_int_equal(dirty_recorder_end_round(recorder, &err), 0);
    }
    assert_int_equal(dirty_recorder_close(recorder, &err), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_non_null(strstr(err.text, folder->file));
    assert_int_equal(recording_fixture_count_files(folder), 1);
    assert_int_equal(recording_fixture_load(folder, &err), 0);
}

/* The recordings that the bench is judged by are whole, small, and what they are said to be. */
static void loads_the_corpus(void **state)
{
    DIR *dir = opendir(CORPUS);
    unsigned nfiles = 0;

    (void)state;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *suffix = strrchr(entry->d_name, '.');
        struct dirty_recording *recording = NULL;
        struct error err = {""};
        struct stat info;
        char path[512];
        uint64_t first = 0, last = 0;

        if (!suffix || strcmp(suffix, DIRTY_RECORDING_SUFFIX) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", CORPUS, entry->d_name);
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size < 100 * 1024);
        if (dirty_recording_load(path, &recording, &err))
            fail_msg("%s", err.text);
        for (unsigned i = 0; i < recording->nregions; i++) {
            first += recording->bitmap[i].dirty_pages;
            last += recording->bitmap[recording->nbitmaps - 1 - i].dirty_pages;
        }
        assert_true(recording->nrounds >= 3 && last && last < first);
        dirty_recording_free(recording);
        nfiles++;
    }
    closedir(dir);
    assert_true(nfiles >= 5);
}

#define IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, recording_fixture_enter, recording_fixture_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(there_and_back),       IN_FOLDER(leaves_nothing_behind),
        IN_FOLDER(drops_a_round),        IN_FOLDER(refuses_bad_places),
        IN_FOLDER(fails_as_a_disk_does), cmocka_unit_test(loads_the_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
