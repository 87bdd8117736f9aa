/* SPDX-License-Identifier: MIT */
#include "tools/server.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/exit_trace_print.h"
#include "tools/qmp_migrate.h"
#include "vmm/base/log.h"

#define REGISTERS_BYTES 4096
#define DRAIN_MS        200

static void on_signal(void *opaque, uint32_t events)
{
    struct server *server = opaque;
    struct signalfd_siginfo info;

    (void)events;
    if (read(server->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    log_info("ended by signal %u (%s)", info.ssi_signo, strsignal((int)info.ssi_signo));
    server->exit_code = 128 + (int)info.ssi_signo;
    loop_stop(&server->loop);
}

static int watch_signals(struct server *server, struct error *err)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    server->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (server->signal_fd < 0)
        return error_set(err, errno, "signalfd: %s", strerror(errno));
    if (loop_add(&server->loop, server->signal_fd, EPOLLIN, on_signal, server))
        return error_set(err, ENOSPC, "the control loop takes no more descriptors");
    return 0;
}

/* The final event carries the whole answer of query-migrate: this process may be gone before a
 * client can ask. `ending`: a guest that is still here ends with the process. */
static void announce_outcome(struct server *server, bool ending)
{
    const struct migration *migration = &server->migration;
    bool here = migration->outcome == PRECOPY_CANCELLED || migration->outcome == PRECOPY_FAILED ||
                migration_is_snapshot(migration);
    const char *name = migration_outcome_name(migration->outcome);
    json_t *details = qmp_query_migrate(server, NULL, NULL);

    (void)json_object_set_new(json_object_get(details, "x-pageferry"), "guest",
                              json_string(ending && here ? "shutdown" : server_run_state(server)));
    control_event(&server->control, "MIGRATION",
                  json_pack("{s:s, s:o}", "status",
                            migration->outcome == PRECOPY_IN_DOUBT ? "failed" : name,
                            "x-query-migrate", details));
}

static void on_migration_event(void *opaque, uint32_t events)
{
    struct server *server = opaque;
    struct progress_view view;
    uint64_t count;

    (void)events;
    (void)!read(server->migration.event_fd, &count, sizeof(count));
    if (server->migration.running_options.check_only)
        return; /* nothing moves */
    progress_get(&server->migration.progress, &view);
    migration_events_tell(&server->events, &view, &server->control);
}

static void on_migration_done(void *opaque, uint32_t events)
{
    struct server *server = opaque;

    (void)events;
    migration_collect(&server->migration);
    on_migration_event(server, 0); /* first all that came before the end */
    announce_outcome(server, false);
    if (server->migration.outcome == PRECOPY_COMPLETED) {
        if (!migration_is_snapshot(&server->migration))
            console_end_input(&server->console);
        else if (server->migration.running_stop)
            control_event(&server->control, "STOP", NULL);
    }
    if (server->guest_ended)
        loop_stop(&server->loop);
}

void server_migration_settled(struct server *server)
{
    announce_outcome(server, false);
    if (server->migration.outcome == PRECOPY_COMPLETED)
        console_end_input(&server->console);
    else if (strcmp(server_run_state(server), "running") == 0)
        control_event(&server->control, "RESUME", NULL);
}

static void on_doubt_heard(void *opaque, uint32_t events)
{
    struct server *server = opaque;

    (void)events;
    if (migration_heard(&server->migration))
        server_migration_settled(server);
}

static void on_gdb_kill(void *opaque)
{
    server_quit(opaque);
}

static int open_gdb(struct server *server, const char *address, struct error *err)
{
    const struct gdb_server_options options = {.loop = &server->loop,
                                               .host = &server->host,
                                               .migration = &server->migration,
                                               .kill = on_gdb_kill,
                                               .opaque = server};

    return address ? gdb_server_open(&server->gdb, address, &options, err) : 0;
}

int server_init(struct server *server, const struct server_options *options, struct error *err)
{
    int rc;

    memset(server, 0, sizeof(*server));
    server->signal_fd = -1;
    server->loop.epoll_fd = -1;
    control_init(&server->control);
    gdb_server_init(&server->gdb);
    server->migration.cancel_fd = -1;
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that goes is an error code, not a death */
    (void)signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    rc = vm_host_init(&server->host, err);
    if (!rc)
        rc = loop_init(&server->loop, err);
    if (!rc)
        rc = watch_signals(server, err);
    if (!rc)
        rc = migration_init(&server->migration, &server->host, err);
    if (!rc &&
        loop_add(&server->loop, server->migration.done_fd, EPOLLIN, on_migration_done, server))
        rc = error_set(err, ENOSPC, "the control loop takes no more descriptors");
    if (!rc &&
        loop_add(&server->loop, server->migration.event_fd, EPOLLIN, on_migration_event, server))
        rc = error_set(err, ENOSPC, "the control loop takes no more descriptors");
    if (!rc &&
        loop_add(&server->loop, server->migration.doubt.heard_fd, EPOLLIN, on_doubt_heard, server))
        rc = error_set(err, ENOSPC, "the control loop takes no more descriptors");
    if (!rc)
        rc = control_open(&server->control, options->control_path, &server->loop, qmp_execute,
                          server, err);
    if (!rc)
        rc = console_open(&server->console, options->serial, &server->loop, err);
    if (!rc)
        rc = open_gdb(server, options->gdb, err);
    return rc;
}

void server_destroy(struct server *server)
{
    /* The engine uses the machine: it goes first. */
    if (server->migration.cancel_fd >= 0)
        migration_destroy(&server->migration);
    gdb_server_close(&server->gdb);
    console_close(&server->console);
    control_close(&server->control);
    if (server->signal_fd >= 0)
        (void)close(server->signal_fd);
    loop_destroy(&server->loop);
    vm_host_destroy(&server->host);
}

/* The guest ended: say how, and make it the process's exit status. */
static void report_end(struct server *server)
{
    struct machine *machine = server->host.machine;
    const struct machine_exit *end = machine_exit(machine);

    server->guest_ended = true;
    gdb_server_guest_ended(&server->gdb, end);
    switch (end->kind) {
    case MACHINE_EXIT_GUEST:
        server->exit_code = (int)(end->code & 0xff);
        break;
    case MACHINE_EXIT_POWEROFF:
    case MACHINE_EXIT_RESET:
        log_info("%s", end->reason);
        server->exit_code = 0;
        break;
    case MACHINE_EXIT_SHUTDOWN:
    case MACHINE_EXIT_ERROR:
    case MACHINE_EXIT_NONE:
        /* Reason and registers were logged where they were known. */
        server->exit_code = SERVER_EXIT_FAILURE;
        break;
    }
    control_event(&server->control, "SHUTDOWN",
                  json_pack("{s:b, s:s}", "guest", 1, "reason",
                            end->kind == MACHINE_EXIT_RESET ? "guest-reset" : "guest-shutdown"));
}

static void on_machine(void *opaque, uint32_t events)
{
    struct server *server = opaque;
    struct machine *machine = server->host.machine;

    (void)events;
    machine_event_ack(machine);
    console_pump(&server->console);
    if (machine_state(machine) == MACHINE_STOPPED && !server->guest_ended) {
        report_end(server);
        /* An engine that is under way stops first, so that its peer is told why. */
        if (server->migration.state == MIGRATION_UNDER_WAY)
            migration_interrupt(&server->migration);
        else
            loop_stop(&server->loop);
    }
    gdb_server_look(&server->gdb);
}

void server_adopt_machine(struct server *server)
{
    struct machine *machine = server->host.machine;

    server->has_guest = true;
    /* There is room: what else is watched is bounded and smaller. */
    (void)loop_add(&server->loop, machine_event_fd(machine), EPOLLIN, on_machine, server);
    console_attach(&server->console, machine);
}

void server_quit(struct server *server)
{
    loop_stop(&server->loop);
}

/* The console's reader gets what the guest printed: all of it where the guest ended by itself, what
 * it takes soon where somebody ended us. */
static void drain_console(struct server *server)
{
    struct error err;

    if (!server->guest_ended && server->has_guest)
        (void)vm_host_stop(&server->host, &err); /* refused where it stands still anyway */
    console_drain(&server->console, server->guest_ended ? -1 : DRAIN_MS, server->signal_fd);
}

int server_run(struct server *server)
{
    struct error err = {.text = ""};

    if (loop_run(&server->loop, &err)) {
        log_error("%s", err.text);
        server->exit_code = SERVER_EXIT_FAILURE;
    }
    if (server->migration.state == MIGRATION_UNDER_WAY) {
        migration_cancel(&server->migration);
        migration_collect(&server->migration);
        announce_outcome(server, true);
    }
    gdb_server_close(&server->gdb);
    drain_console(server);
    if (server->has_guest)
        exit_trace_report(server->host.machine);
    return server->host.in_doubt ? SERVER_EXIT_IN_DOUBT : server->exit_code;
}

const char *server_run_state(struct server *server)
{
    struct machine *machine = vm_host_machine(&server->host);

    if (!machine)
        return "inmigrate";
    if (server->host.in_doubt)
        return "finish-migrate";
    switch (machine_state(machine)) {
    case MACHINE_CREATED:
        return "prelaunch";
    case MACHINE_RUNNING:
        return "running";
    case MACHINE_PAUSED:
        if (server->host.debugged)
            return "debug";
        return server->host.hold == VM_HOST_HELD_FOR_GOOD ? "finish-migrate" : "paused";
    case MACHINE_MOVED:
        return "postmigrate";
    case MACHINE_STOPPED:
        break;
    }
    return machine_exit(machine)->kind == MACHINE_EXIT_ERROR ? "internal-error" : "shutdown";
}
