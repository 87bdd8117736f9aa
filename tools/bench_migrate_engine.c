/* SPDX-License-Identifier: MIT
 *
 * The engine alone: RAM without a guest moves from one process to another, over TCP loopback. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "migrate/precopy.h"
#include "migrate/receive.h"
#include "tools/bench_child.h"
#include "tools/bench_engine_guest.h"
#include "tools/bench_migrate.h"
#include "tools/bench_usage.h"
#include "tools/bench_warm.h"

#define PATIENCE_NS (60ull * 1000 * 1000 * 1000)

struct ends {
    const struct bench_migrate_config *config;
    struct bench_listener listener;
};

struct end_result {
    bool good;
    char why[256];
    uint64_t total_ns, setup_ns, downtime_ns, blackout_ns, rounds, sent_bytes; /* the source's */
    uint64_t phase_ns[PROGRESS_DONE + 1];
    uint64_t sum;          /* of what was touched */
    uint64_t memory_bytes; /* the most that was resident, beyond guest RAM */
    uint64_t ram_bytes;
    uint64_t cpu_ns;
};

static void tell_why(struct end_result *result, const struct error *err)
{
    size_t length = strnlen(err->text, sizeof(result->why) - 1);

    memcpy(result->why, err->text, length);
    result->why[length] = '\0';
}

static int connect_channel(int fd, struct channel **channel, struct error *err)
{
    struct channel_options options = {.deadline_ns = PATIENCE_NS, .cancel_fd = -1};

    return fd < 0 ? error_set(err, -fd, "the connection: %s", strerror(-fd))
                  : channel_open(channel, fd, fd, &options, err);
}

/* The first connection: nothing moves before the destination is ready for it. */
static int connect_first(const struct ends *ends, struct channel **channel, struct error *err)
{
    int fd = bench_connect(&ends->listener);
    int rc = fd < 0 ? fd : bench_await_go(fd);

    if (fd >= 0 && rc)
        (void)close(fd);
    return connect_channel(rc ? rc : fd, channel, err);
}

static int accept_first(const struct ends *ends, struct channel **channel, struct error *err)
{
    int fd = bench_accept(&ends->listener), rc = fd;

    if (fd >= 0) {
        bench_warm(ends->config->touched_bytes);
        rc = bench_tell_go(fd);
    }
    if (fd >= 0 && rc)
        (void)close(fd);
    return connect_channel(rc ? rc : fd, channel, err);
}

static int connect_next(void *opaque, struct channel **channel, struct error *err)
{
    const struct ends *ends = opaque;

    return connect_channel(bench_connect(&ends->listener), channel, err);
}

static int accept_next(void *opaque, struct channel **channel, struct error *err)
{
    const struct ends *ends = opaque;

    return connect_channel(bench_accept(&ends->listener), channel, err);
}

/* What is measured of both ends, before anything is done for the check. */
static int take_usage(struct end_result *result, const struct engine_guest *guest,
                      uint64_t cpu_before_ns, struct error *err)
{
    struct bench_usage usage;
    int rc = bench_usage_of(getpid(), &usage, err);

    if (!rc)
        rc = engine_guest_present(guest, &result->ram_bytes, err);
    if (rc)
        return rc;
    result->cpu_ns = usage.cpu_ns - cpu_before_ns;
    result->memory_bytes =
        usage.peak_bytes > result->ram_bytes ? usage.peak_bytes - result->ram_bytes : 0;
    return 0;
}

static int send_guest(struct ends *ends, struct engine_guest *guest, struct end_result *result,
                      struct error *err)
{
    struct precopy_options options = {.downtime_limit_ns = ends->config->downtime_limit_ns,
                                      .max_bandwidth = ends->config->max_bandwidth,
                                      .chunk_pages = PRECOPY_CHUNK_PAGES,
                                      .streams = (unsigned)ends->config->streams,
                                      .zerocopy = CHANNEL_ZEROCOPY_AUTO};
    struct migrate_links links = {.next = connect_next, .opaque = ends};
    struct migrate_source source = engine_guest_source(guest);
    struct bench_usage before = {0};
    struct progress progress;
    struct progress_view view;
    int rc = engine_guest_create(guest, err);

    if (rc)
        return rc;
    engine_guest_touch(guest, ends->config->touched_bytes);
    rc = bench_usage_of(getpid(), &before, err);
    if (!rc)
        rc = connect_first(ends, &links.first, err);
    if (rc)
        return rc;
    progress_init(&progress);
    if (precopy_run(&source, &links, &options, &progress, err) != PRECOPY_COMPLETED)
        rc = -EIO;
    progress_get(&progress, &view);
    channel_close(links.first);
    result->total_ns = view.running_ns - view.started_ns;
    result->setup_ns = view.rounds_started_ns - view.started_ns;
    result->downtime_ns = view.running_ns - view.paused_ns;
    result->blackout_ns = view.resumed_at_ns - view.paused_ns; /* one host, one clock */
    memcpy(result->phase_ns, view.phase_ns, sizeof(result->phase_ns));
    result->rounds = view.nrounds;
    result->sent_bytes = view.sent_bytes;
    return rc ? rc : take_usage(result, guest, before.cpu_ns, err);
}

static int receive_guest(struct ends *ends, struct engine_guest *guest, struct end_result *result,
                         struct error *err)
{
    struct migrate_sink sink = engine_guest_sink(guest);
    struct bench_usage before = {0};
    struct error ignored = {""};
    struct progress progress;
    struct migrate_links links = {.next = accept_next, .opaque = ends};
    int rc = bench_usage_of(getpid(), &before, err);

    if (!rc)
        rc = accept_first(ends, &links.first, err);
    if (rc)
        return rc;
    progress_init(&progress);
    if (receive_run(&sink, &links, &progress, err) != RECEIVE_RUNNING)
        rc = -EIO;
    /* What is looked at next takes time: on the CPU that the source is to be woken on, it would
     * keep RUNNING from it. */
    if (!rc)
        (void)channel_wait_readable(links.first, PATIENCE_NS, &ignored);
    channel_close(links.first);
    return rc ? rc : take_usage(result, guest, before.cpu_ns, err);
}

static void end_main(struct ends *ends, struct end_result *result,
                     int (*work)(struct ends *, struct engine_guest *, struct end_result *,
                                 struct error *))
{
    struct engine_guest guest = {.bytes = ends->config->memory_bytes,
                                 .backing = ends->config->backing,
                                 .dirty_rate = ends->config->dirty_rate,
                                 .dirty_bytes = ends->config->dirty_bytes,
                                 .dirty_random = ends->config->dirty_random};
    struct error err = {""};

    /* What the engine decides is no part of the report, and what fails is told in `why`. */
    (void)!freopen("/dev/null", "w", stderr);
    result->good = work(ends, &guest, result, &err) == 0;
    tell_why(result, &err);
    if (result->good)
        result->sum = engine_guest_sum(&guest, ends->config->touched_bytes);
    engine_guest_free(&guest);
}

static void source_main(void *opaque, void *result)
{
    end_main(opaque, result, send_guest);
}

static void target_main(void *opaque, void *result)
{
    end_main(opaque, result, receive_guest);
}

static int judge(const struct end_result *source, const struct end_result *target,
                 struct error *err)
{
    if (!source->good)
        return error_set(err, EIO, "the source: %s", source->why);
    if (!target->good)
        return error_set(err, EIO, "the destination: %s", target->why);
    if (source->sum != target->sum)
        return error_set(err, EBADMSG, "the RAM that arrived is not the RAM that was sent");
    return 0;
}

static void fill_row(const struct end_result *source, const struct end_result *target,
                     struct bench_migrate_row *row)
{
    static const struct {
        enum bench_migrate_metric metric;
        enum progress_phase phase;
    } phases[] = {{BENCH_MIGRATE_PHASE_ROUNDS, PROGRESS_ROUNDS},
                  {BENCH_MIGRATE_PHASE_PAUSE, PROGRESS_PAUSE},
                  {BENCH_MIGRATE_PHASE_FINAL, PROGRESS_FINAL},
                  {BENCH_MIGRATE_PHASE_STATE, PROGRESS_STATE},
                  {BENCH_MIGRATE_PHASE_READY, PROGRESS_READY},
                  {BENCH_MIGRATE_PHASE_COMMIT, PROGRESS_COMMIT}};
    double seconds = (double)source->total_ns / 1e9;

    bench_migrate_put(row, BENCH_MIGRATE_RATE,
                      seconds > 0 ? (uint64_t)((double)source->sent_bytes / seconds) : 0);
    bench_migrate_put(row, BENCH_MIGRATE_TOTAL, source->total_ns);
    bench_migrate_put(row, BENCH_MIGRATE_DOWNTIME, source->downtime_ns);
    bench_migrate_put(row, BENCH_MIGRATE_BLACKOUT, source->blackout_ns);
    bench_migrate_put(row, BENCH_MIGRATE_PHASE_SETUP, source->setup_ns);
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        bench_migrate_put(row, phases[i].metric, source->phase_ns[phases[i].phase]);
    bench_migrate_put(row, BENCH_MIGRATE_ROUNDS, source->rounds);
    bench_migrate_put(row, BENCH_MIGRATE_SENT, source->sent_bytes);
    bench_migrate_put(row, BENCH_MIGRATE_SOURCE_MEMORY, source->memory_bytes);
    bench_migrate_put(row, BENCH_MIGRATE_TARGET_MEMORY, target->memory_bytes);
    bench_migrate_put(row, BENCH_MIGRATE_TARGET_RAM, target->ram_bytes);
    bench_migrate_put(row, BENCH_MIGRATE_SOURCE_CPU, source->cpu_ns);
    bench_migrate_put(row, BENCH_MIGRATE_TARGET_CPU, target->cpu_ns);
}

int bench_migrate_engine(const struct bench_migrate_config *config, struct bench_migrate_row *row,
                         struct error *err)
{
    struct ends ends = {.config = config};
    struct end_result sent = {0}, received = {0};
    struct bench_child source, target;
    int rc = bench_listen(&ends.listener, err);

    if (rc)
        return rc;
    rc = bench_child_start(&target, target_main, &ends, sizeof(received), err);
    if (!rc) {
        rc = bench_child_start(&source, source_main, &ends, sizeof(sent), err);
        if (!rc)
            rc = bench_child_finish(&source, &sent, err);
        /* A source that failed before it connected leaves the other end waiting. */
        if (!rc && sent.good)
            rc = bench_child_finish(&target, &received, err);
        else
            bench_child_kill(&target);
    }
    (void)close(ends.listener.fd);
    if (!rc)
        rc = judge(&sent, &received, err);
    if (!rc)
        fill_row(&sent, &received, row);
    return rc;
}
