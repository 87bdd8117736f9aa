/* SPDX-License-Identifier: MIT */
#include "tests/unit/snapshot_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vmm/base/clock.h"

const uint64_t fixture_sizes[FAKE_REGIONS] = {2048 + 37, 4096};

void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    /* Memory where there is some: nobody has to wait for a disk. */
    (void)strcpy(f->directory, access("/dev/shm", W_OK) ? "/tmp/pageferry-unit.XXXXXX"
                                                        : "/dev/shm/pageferry-unit.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->path, sizeof(f->path), "%s/guest.snap", f->directory);
    fake_guest_init(&f->guest, fixture_sizes, true);
    progress_init(&f->progress);
    f->options = (struct snapshot_options){
        .copy = {.downtime_limit_ns = 20 * CLOCK_NS_PER_MS, .chunk_pages = 512}, .cancel_fd = -1};
}

unsigned fixture_files_in(const char *directory)
{
    DIR *dir = opendir(directory);
    unsigned count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    (void)closedir(dir);
    return count;
}

void fixture_free(struct fixture *f)
{
    fake_guest_free(&f->guest);
    progress_destroy(&f->progress);
    (void)unlink(f->path);
    assert_int_equal(rmdir(f->directory), 0);
}

enum precopy_outcome fixture_save(struct fixture *f)
{
    struct migrate_source source = fake_guest_source(&f->guest);
    enum precopy_outcome outcome =
        snapshot_save_run(&source, f->path, &f->options, &f->progress, &f->err);

    assert_false(f->guest.logging);
    assert_false(f->guest.moved);
    assert_int_equal(f->guest.pauses, f->guest.resumes);
    return outcome;
}

enum receive_outcome fixture_restore(const char *path, bool paused, struct fake_guest *into,
                                     struct error *err)
{
    struct migrate_sink sink = fake_guest_sink(into);
    struct snapshot_load_options options = {.paused = paused, .cancel_fd = -1};
    struct progress progress;
    enum receive_outcome outcome;

    fake_guest_init(into, fixture_sizes, false);
    progress_init(&progress);
    err->text[0] = '\0';
    outcome = snapshot_load_run(&sink, path, &options, &progress, err);
    progress_destroy(&progress);
    return outcome;
}
