/* SPDX-License-Identifier: MIT */
#include "tools/incoming.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "migrate/snapshot_load.h"
#include "tools/answering.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"

static struct channel_options channel_options(const struct incoming *incoming)
{
    return (struct channel_options){.deadline_ns = incoming->times.deadline_ns,
                                    .keepalive_ns = incoming->times.keepalive_ns,
                                    .cancel_fd = incoming->cancel_fd};
}

/* One more stream of the migration that is being served; whoever comes next, in any case. */
static int accept_next(void *opaque, struct channel **out, struct error *err)
{
    struct incoming *incoming = opaque;
    struct channel_options options = channel_options(incoming);
    struct lobby_limits limits = {.cancel_fd = incoming->cancel_fd,
                                  .watch_fd = channel_fd(incoming->first),
                                  .until_ns = clock_now_ns() + options.deadline_ns};
    int fd = lobby_next(&incoming->lobby, &limits);

    if (fd == -ETIMEDOUT)
        return error_set(err, ETIMEDOUT, "the source did not connect all its streams within %.1f s",
                         (double)options.deadline_ns / (double)CLOCK_NS_PER_SEC);
    if (fd == -ECONNRESET)
        return error_set(err, ECONNRESET, "the source went away before all streams were there");
    if (fd < 0)
        return error_set(err, -fd, "waiting for the other streams: %s", strerror(-fd));
    return channel_open(out, fd, fd, &options, err);
}

static int serve(struct incoming *incoming, int in_fd, int out_fd)
{
    struct channel_options options = channel_options(incoming);
    struct migrate_links links = {.next = incoming->listen_fd >= 0 ? accept_next : NULL,
                                  .opaque = incoming};
    struct migrate_sink sink = binding_sink_ops(&incoming->binding);
    int rc = channel_open(&links.first, in_fd, out_fd, &options, &incoming->err);

    if (rc) {
        incoming->outcome = RECEIVE_DISCARDED;
        error_prefix(&incoming->err, "%s", progress_phase_name(PROGRESS_CONNECT));
        return rc;
    }
    incoming->err.text[0] = '\0';
    incoming->first = links.first;
    incoming->outcome = receive_run(&sink, &links, &incoming->progress, &incoming->err);
    incoming->guest_lost =
        incoming->outcome == RECEIVE_DISCARDED || incoming->outcome == RECEIVE_ABANDONED;
    channel_close(links.first);
    return 0;
}

/* True where the wait goes on: the peer was no migration, or only asked. */
static bool wait_on(struct incoming *incoming)
{
    if (incoming->outcome == RECEIVE_CHECKED) {
        if (incoming->err.text[0])
            log_warning("a source asked whether its guest would be accepted: no, it failed %s",
                        incoming->err.text);
        else
            log_info("a source asked whether its guest would be accepted: yes");
        return true;
    }
    if (incoming->outcome == RECEIVE_STRANGER) {
        log_warning("a connection was turned away %s", incoming->err.text);
        return true;
    }
    return false;
}

/* Whoever comes now is told at once that there is nobody. */
static void stop_listening(struct incoming *incoming)
{
    if (incoming->listen_fd < 0)
        return;
    lobby_close(&incoming->lobby);
    (void)close(incoming->listen_fd);
    incoming->listen_fd = -1;
    if (incoming->unix_path)
        (void)unlink(incoming->unix_path);
}

/* The next connection that is no mere question; its session is noted. */
static int next_source(struct incoming *incoming)
{
    struct channel_options options = channel_options(incoming);

    for (;;) {
        struct lobby_limits limits = {.cancel_fd = incoming->cancel_fd, .watch_fd = -1};
        int fd = lobby_next(&incoming->lobby, &limits);
        struct wire_hello hello;

        if (fd < 0 || !answering_peek(fd, &hello))
            return fd;
        if (!(hello.flags & WIRE_HELLO_QUERY)) {
            memcpy(incoming->session, hello.session, sizeof(incoming->session));
            return fd;
        }
        answering_unknown(fd, &options);
    }
}

static void tell(struct incoming *incoming, bool ended)
{
    uint64_t one = 1;

    if (ended)
        __atomic_store_n(&incoming->ended, true, __ATOMIC_RELEASE);
    (void)!write(incoming->done_fd, &one, sizeof(one));
}

bool incoming_answers(const struct incoming *incoming)
{
    return incoming->listens && incoming->times.answer_ns &&
           (incoming->outcome == RECEIVE_RUNNING || incoming->outcome == RECEIVE_ABANDONED);
}

/* What the source may not have heard. */
static void answer_for_a_while(struct incoming *incoming)
{
    struct channel_options options = channel_options(incoming);

    if (!incoming_answers(incoming))
        return;
    tell(incoming, false);
    answering_linger(&incoming->lobby, &options, incoming->session,
                     incoming->outcome == RECEIVE_RUNNING ? HANDOVER_OWNER : HANDOVER_DISCARDED,
                     incoming->times.answer_ns);
}

static void restore(struct incoming *incoming)
{
    struct snapshot_load_options options = {.paused = incoming->restore_paused,
                                            .cancel_fd = incoming->cancel_fd};
    struct migrate_sink sink = binding_sink_ops(&incoming->binding);

    incoming->outcome = snapshot_load_run(&sink, incoming->snapshot_path, &options,
                                          &incoming->progress, &incoming->err);
    incoming->guest_lost = incoming->outcome == RECEIVE_DISCARDED;
}

static void *incoming_main(void *opaque)
{
    struct incoming *incoming = opaque;
    bool more = !incoming->snapshot_path;

    incoming->outcome = RECEIVE_DISCARDED;
    if (incoming->snapshot_path)
        restore(incoming);
    while (more) {
        int in_fd = incoming->in_fd, out_fd = incoming->out_fd;

        if (incoming->listen_fd >= 0) {
            in_fd = out_fd = next_source(incoming);
            if (in_fd < 0) {
                (void)error_set(&incoming->err, -in_fd, "waiting for a guest: %s",
                                strerror(-in_fd));
                incoming->outcome = RECEIVE_DISCARDED;
                break;
            }
        }
        more = serve(incoming, in_fd, out_fd) == 0 && wait_on(incoming) && incoming->listen_fd >= 0;
    }
    answer_for_a_while(incoming);
    stop_listening(incoming);
    tell(incoming, true);
    return NULL;
}

static void prepare(struct incoming *incoming, struct vm_host *host,
                    const struct machine_host *made_for, const struct incoming_times *times,
                    int listen_fd)
{
    memset(incoming, 0, sizeof(*incoming));
    incoming->binding = (struct binding_sink){.host = host, .machine_host = *made_for};
    incoming->times = *times;
    incoming->listen_fd = listen_fd;
    incoming->listens = listen_fd >= 0;
    lobby_init(&incoming->lobby, times->deadline_ns, listen_fd);
}

static void release(struct incoming *incoming)
{
    if (incoming->cancel_fd >= 0)
        (void)close(incoming->cancel_fd);
    if (incoming->done_fd >= 0)
        (void)close(incoming->done_fd);
    progress_destroy(&incoming->progress);
}

static int launch(struct incoming *incoming, struct error *err)
{
    int rc;

    progress_init(&incoming->progress);
    incoming->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    incoming->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (incoming->cancel_fd < 0 || incoming->done_fd < 0)
        rc = error_set(err, errno, "eventfd: %s", strerror(errno));
    else if ((rc = pthread_create(&incoming->thread, NULL, incoming_main, incoming)))
        rc = error_set(err, rc, "a thread for the migration: %s", strerror(rc));
    incoming->started = rc == 0;
    if (rc)
        release(incoming);
    return rc;
}

int incoming_start(struct incoming *incoming, struct vm_host *host,
                   const struct machine_host *made_for, const struct incoming_times *times,
                   int listen_fd, const char *unix_path, int in_fd, int out_fd, struct error *err)
{
    prepare(incoming, host, made_for, times, listen_fd);
    incoming->unix_path = unix_path;
    incoming->in_fd = in_fd;
    incoming->out_fd = out_fd;
    return launch(incoming, err);
}

int incoming_restore(struct incoming *incoming, struct vm_host *host,
                     const struct machine_host *made_for, const char *path, bool paused,
                     struct error *err)
{
    static const struct incoming_times none = {.deadline_ns = 0};

    prepare(incoming, host, made_for, &none, -1);
    incoming->snapshot_path = path;
    incoming->restore_paused = paused;
    return launch(incoming, err);
}

void incoming_collect(struct incoming *incoming)
{
    if (incoming->started && !incoming->joined)
        (void)pthread_join(incoming->thread, NULL);
    incoming->joined = true;
}

void incoming_finish(struct incoming *incoming)
{
    uint64_t one = 1;

    if (!incoming->started)
        return;
    (void)!write(incoming->cancel_fd, &one, sizeof(one));
    incoming_collect(incoming);
    incoming->started = false;
    release(incoming);
}
