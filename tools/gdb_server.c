/* SPDX-License-Identifier: MIT */
#include "tools/gdb_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/gdb_machine.h"
#include "vmm/base/log.h"

#define READ_BYTES 4096

void gdb_server_init(struct gdb_server *gdb)
{
    memset(gdb, 0, sizeof(*gdb));
    gdb->listen_fd = gdb->fd = -1;
}

/* The client is gone or shall go. */
static void drop(struct gdb_server *gdb, bool run)
{
    if (gdb->fd < 0)
        return;
    loop_remove(gdb->loop, gdb->fd);
    (void)close(gdb->fd);
    gdb->fd = -1;
    if (!gdb->attached)
        return;
    gdb->attached = false;
    vm_host_debug_detach(gdb->host, run);
    log_info("the debugger has detached");
}

/* Without a word from the client the guest does what it did before, or was last told. */
static void lose(struct gdb_server *gdb)
{
    drop(gdb, gdb->runs_on);
}

/* Writes what the socket takes now. False where the client is gone. */
static bool flush(struct gdb_server *gdb)
{
    while (gdb->output_bytes) {
        ssize_t put = send(gdb->fd, gdb->output, gdb->output_bytes, MSG_NOSIGNAL);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0) {
            lose(gdb);
            return false;
        }
        gdb->output_bytes -= (size_t)put;
        memmove(gdb->output, gdb->output + put, gdb->output_bytes);
    }
    loop_change(gdb->loop, gdb->fd, EPOLLIN | (gdb->output_bytes ? (uint32_t)EPOLLOUT : 0));
    return true;
}

static bool queue(struct gdb_server *gdb, const void *bytes, size_t count)
{
    if (count > sizeof(gdb->output) - gdb->output_bytes) {
        log_warning("the debugger does not read its answers: it was disconnected");
        lose(gdb);
        return false;
    }
    memcpy(gdb->output + gdb->output_bytes, bytes, count);
    gdb->output_bytes += count;
    return true;
}

static bool send_reply(struct gdb_server *gdb, const struct gdb_reply *reply)
{
    gdb->last_bytes = gdb_packet_encode(reply, gdb->last);
    return queue(gdb, gdb->last, gdb->last_bytes);
}

static void turn_away(struct gdb_server *gdb, const char *why)
{
    log_warning("a debugger was turned away: %s", why);
    drop(gdb, false);
}

static bool attach(struct gdb_server *gdb)
{
    struct error err = {""};

    if (gdb->migration->state == MIGRATION_UNDER_WAY) {
        turn_away(gdb, "a migration is under way");
        return false;
    }
    if (vm_host_debug_attach(gdb->host, &gdb->runs_on, &err)) {
        turn_away(gdb, err.text);
        return false;
    }
    gdb->attached = true;
    gdb_session_begin(&gdb->session, &gdb->target);
    log_info("a debugger has attached: the guest stands until it is continued");
    return true;
}

/* Pauses, and tells the client why the guest stands. False where the client is gone. */
static bool report_stop(struct gdb_server *gdb, bool interrupted)
{
    struct machine_debug_stop stop;
    struct gdb_reply reply;
    struct error err;

    /* Refused where the guest has ended: the client is told of that in a moment. */
    if (vm_host_debug_stop(gdb->host, &stop, &err))
        return true;
    gdb_session_stopped(&gdb->session, &stop, interrupted, &reply);
    return send_reply(gdb, &reply);
}

static bool handle_packet(struct gdb_server *gdb)
{
    bool acks = !gdb->session.no_ack;
    struct gdb_reply reply;

    if (!gdb->attached && !attach(gdb))
        return false;
    if (acks && !queue(gdb, "+", 1))
        return false;
    switch (gdb_session_handle(&gdb->session, gdb->reader.body, gdb->reader.bytes, &reply)) {
    case GDB_NEXT_REPLY:
        return send_reply(gdb, &reply);
    case GDB_NEXT_WAIT:
        gdb->runs_on |= gdb->session.running;
        return true;
    case GDB_NEXT_DETACH:
        if (send_reply(gdb, &reply) && flush(gdb))
            drop(gdb, true);
        return false;
    case GDB_NEXT_KILL:
        log_info("the debugger ended the guest");
        gdb->kill(gdb->opaque);
        if (reply.bytes && send_reply(gdb, &reply))
            (void)flush(gdb);
        return false;
    }
    return true;
}

/* Once for each client: it may go on like that. */
static void complain(struct gdb_server *gdb, const char *what)
{
    if (!gdb->complained)
        log_warning("the debugger sent a packet %s: it was passed over", what);
    gdb->complained = true;
}

/* False where the client is gone. */
static bool handle(struct gdb_server *gdb, enum gdb_packet_event event)
{
    switch (event) {
    case GDB_PACKET_MORE:
    case GDB_PACKET_ACK:
        return true;
    case GDB_PACKET_BODY:
        return handle_packet(gdb);
    case GDB_PACKET_BAD:
        complain(gdb, "with a wrong checksum");
        return gdb->session.no_ack || queue(gdb, "-", 1);
    case GDB_PACKET_TOO_LONG: {
        struct gdb_reply none = {.bytes = 0};

        complain(gdb, "longer than PacketSize");
        gdb_put_text(&none, "E07"); /* E2BIG */
        return (gdb->session.no_ack || queue(gdb, "+", 1)) && send_reply(gdb, &none);
    }
    case GDB_PACKET_AGAIN:
        return gdb->session.no_ack || queue(gdb, gdb->last, gdb->last_bytes);
    case GDB_PACKET_INTERRUPT:
        return !gdb->attached || !gdb->session.running || report_stop(gdb, true);
    }
    return true;
}

static void on_client(void *opaque, uint32_t events)
{
    struct gdb_server *gdb = opaque;
    uint8_t data[READ_BYTES];
    ssize_t got;

    (void)events;
    got = recv(gdb->fd, data, sizeof(data), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        (void)flush(gdb);
        return;
    }
    if (got <= 0) {
        lose(gdb);
        return;
    }
    for (size_t at = 0, used; at < (size_t)got; at += used) {
        enum gdb_packet_event event =
            gdb_packet_feed(&gdb->reader, data + at, (size_t)got - at, &used);

        if (!handle(gdb, event))
            return;
    }
    (void)flush(gdb);
}

/* Who has hung up makes room at once: epoll may tell of the next client before it tells of that. */
static void see_the_last_one_off(struct gdb_server *gdb)
{
    struct pollfd client = {.fd = gdb->fd, .events = POLLRDHUP};

    while (gdb->fd >= 0 && poll(&client, 1, 0) == 1)
        on_client(gdb, 0);
}

static void on_listen(void *opaque, uint32_t events)
{
    struct gdb_server *gdb = opaque;
    int fd = accept4(gdb->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int yes = 1;

    (void)events;
    if (fd < 0)
        return;
    see_the_last_one_off(gdb);
    if (gdb->fd >= 0 || loop_add(gdb->loop, fd, EPOLLIN, on_client, gdb)) {
        log_warning("a debugger was turned away: another is connected");
        (void)close(fd);
        return;
    }
    /* Small packets, each of which is waited for; no matter for a UNIX socket. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    gdb->fd = fd;
    gdb->output_bytes = gdb->last_bytes = 0;
    gdb->complained = false;
    memset(&gdb->reader, 0, sizeof(gdb->reader));
    memset(&gdb->session, 0, sizeof(gdb->session));
}

int gdb_server_open(struct gdb_server *gdb, const char *address,
                    const struct gdb_server_options *options, struct error *err)
{
    char chosen[URI_MAX_BYTES];
    int rc = uri_parse(address, &gdb->uri, err);

    if (rc || (gdb->uri.kind != URI_TCP && gdb->uri.kind != URI_UNIX))
        return error_set(err, EINVAL, "--gdb '%.200s': write tcp:HOST:PORT, tcp::PORT or unix:PATH",
                         address);
    gdb->loop = options->loop;
    gdb->host = options->host;
    gdb->migration = options->migration;
    gdb->kill = options->kill;
    gdb->opaque = options->opaque;
    gdb->target = (struct gdb_target){.ops = &gdb_machine_ops, .opaque = options->host};
    rc = uri_listen(&gdb->uri, &gdb->listen_fd, chosen, err);
    if (!rc && loop_add(gdb->loop, gdb->listen_fd, EPOLLIN, on_listen, gdb))
        rc = error_set(err, ENOSPC, "the control loop takes no more descriptors");
    if (!rc)
        log_info("a debugger can attach at %s", chosen);
    return rc;
}

void gdb_server_look(struct gdb_server *gdb)
{
    if (gdb->attached && gdb->session.running && machine_debug_hit(vm_host_machine(gdb->host)) &&
        report_stop(gdb, false))
        (void)flush(gdb);
}

void gdb_server_guest_ended(struct gdb_server *gdb, const struct machine_exit *end)
{
    struct gdb_reply reply = {.bytes = 0};
    char text[8] = "X06"; /* SIGABRT: a triple fault, or what KVM cannot handle */

    if (!gdb->attached)
        return;
    if (end->kind == MACHINE_EXIT_GUEST)
        (void)snprintf(text, sizeof(text), "W%02x", end->code & 0xff);
    else if (end->kind == MACHINE_EXIT_POWEROFF || end->kind == MACHINE_EXIT_RESET)
        (void)snprintf(text, sizeof(text), "W00");
    gdb_put_text(&reply, text);
    if (!gdb->session.running || (send_reply(gdb, &reply) && flush(gdb)))
        drop(gdb, false);
}

void gdb_server_close(struct gdb_server *gdb)
{
    drop(gdb, false);
    if (gdb->listen_fd < 0)
        return;
    loop_remove(gdb->loop, gdb->listen_fd);
    (void)close(gdb->listen_fd);
    gdb->listen_fd = -1;
    if (gdb->uri.kind == URI_UNIX)
        (void)unlink(gdb->uri.rest);
}
