/* SPDX-License-Identifier: MIT */
#include "tools/bench_observer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RAM_LINK "/memfd:guest-ram"
#define UNIT     512 /* stat(2): of st_blocks, whatever the file system's own */

/* Calls `look` with a path to each descriptor of guest RAM, in order, until it returns true. */
static bool each_ram(pid_t pid, bool (*look)(void *opaque, const char *path), void *opaque)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64];
        ssize_t length;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        length = readlink(path, target, sizeof(target) - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        if (strncmp(target, RAM_LINK, strlen(RAM_LINK)) == 0 && look(opaque, path))
            return true;
    }
    return false;
}

static bool map_stats(void *opaque, const char *path)
{
    struct bench_view *view = opaque;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *mapped = MAP_FAILED;

    if (fd < 0)
        return false;
    /* The first is low RAM. Until it has its size there is nothing to map. */
    if (fstat(fd, &status) == 0 &&
        status.st_size >= (off_t)(GUEST_STATS_GPA + sizeof(struct guest_stats)))
        mapped = mmap(NULL, sizeof(struct guest_stats), PROT_READ, MAP_SHARED, fd, GUEST_STATS_GPA);
    (void)close(fd);
    if (mapped == MAP_FAILED)
        return false;
    view->stats = mapped;
    return true;
}

bool bench_view_open(struct bench_view *view, pid_t pid)
{
    return view->stats || each_ram(pid, map_stats, view);
}

void bench_view_close(struct bench_view *view)
{
    if (view->stats)
        (void)munmap((void *)(uintptr_t)view->stats, sizeof(*view->stats));
    view->stats = NULL;
}

static bool add_blocks(void *opaque, const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0)
        *(uint64_t *)opaque += (uint64_t)status.st_blocks * UNIT;
    return false;
}

uint64_t bench_view_ram(pid_t pid)
{
    uint64_t bytes = 0;

    (void)each_ram(pid, add_blocks, &bytes);
    return bytes;
}

bool bench_view_ready(const struct bench_view *view)
{
    return view->stats &&
           __atomic_load_n(&view->stats->magic, __ATOMIC_ACQUIRE) == GUEST_STATS_MAGIC;
}

static void look(struct bench_view *view, uint64_t now_ns)
{
    uint64_t beats = 0, work = 0;

    if (!bench_view_ready(view))
        return;
    for (unsigned i = 0; i < GUEST_MAX_CPUS; i++) {
        beats += __atomic_load_n(&view->stats->cpu[i].heartbeat, __ATOMIC_RELAXED);
        work += __atomic_load_n(&view->stats->cpu[i].work, __ATOMIC_RELAXED);
    }
    if (beats == view->beats)
        return;
    view->beats = beats;
    view->work = work;
    view->changed_ns = now_ns;
}

void bench_observer_look(struct bench_observer *observer, uint64_t now_ns)
{
    look(&observer->source, now_ns);
    look(&observer->target, now_ns);
    observer->last_at_source_ns = observer->source.changed_ns;
    if (!observer->first_at_target_ns && observer->target.beats > observer->source.beats)
        observer->first_at_target_ns = observer->target.changed_ns;
}

uint64_t bench_observer_work(const struct bench_observer *observer)
{
    return observer->target.beats > observer->source.beats ? observer->target.work
                                                           : observer->source.work;
}

uint64_t bench_observer_blackout(const struct bench_observer *observer)
{
    return observer->first_at_target_ns > observer->last_at_source_ns
               ? observer->first_at_target_ns - observer->last_at_source_ns
               : 0;
}
