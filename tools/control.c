/* SPDX-License-Identifier: MIT
 *
 * The control socket: who is connected, events for all of them, descriptors that were passed. */
#include "tools/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/control_client.h"
#include "tools/uri.h"
#include "vmm/base/log.h"

json_t *control_version(void)
{
    /* QEMU's field names with our numbers: clients look for them, and the package says who we are.
     */
    return json_pack("{s:{s:i, s:i, s:i}, s:s}", "qemu", "major", 0, "minor", 1, "micro", 0,
                     "package", "pageferry " PAGEFERRY_VERSION);
}

static struct control_client *free_client(struct control *control)
{
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        if (control->client[i].fd < 0)
            return &control->client[i];
    }
    return NULL;
}

static void on_listen(void *opaque, uint32_t events)
{
    struct control *control = opaque;
    int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct control_client *client = free_client(control);

    (void)events;
    if (fd < 0)
        return;
    if (!client) {
        log_warning("a control client was turned away: %d are connected", CONTROL_MAX_CLIENTS);
        (void)close(fd);
        return;
    }
    *client = (struct control_client){.control = control, .fd = fd, .received_fd = -1};
    if (loop_add(control->loop, fd, EPOLLIN, control_client_serve, client)) {
        (void)close(fd);
        client->fd = -1;
        return;
    }
    control_client_send(
        client, json_pack("{s:{s:o, s:[]}}", "QMP", "version", control_version(), "capabilities"));
    (void)control_client_flush(client);
}

void control_init(struct control *control)
{
    memset(control, 0, sizeof(*control));
    control->listen_fd = -1;
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++)
        control->client[i].fd = -1;
    for (unsigned i = 0; i < CONTROL_MAX_FDS; i++)
        control->fds[i].fd = -1;
}

int control_open(struct control *control, const char *path, struct loop *loop,
                 control_execute *execute_command, void *opaque, struct error *err)
{
    int rc;

    control_init(control);
    control->loop = loop;
    control->path = path;
    control->execute = execute_command;
    control->opaque = opaque;
    if (!path)
        return 0;
    rc = uri_listen_unix(path, &control->listen_fd, err);
    if (!rc && loop_add(loop, control->listen_fd, EPOLLIN, on_listen, control))
        rc = error_set(err, ENOSPC, "the control loop takes no more descriptors");
    return rc;
}

void control_close(struct control *control)
{
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        struct control_client *client = &control->client[i];

        if (client->fd >= 0 && control_client_flush(client))
            control_client_drop(client);
    }
    for (unsigned i = 0; i < CONTROL_MAX_FDS; i++) {
        if (control->fds[i].fd >= 0)
            (void)close(control->fds[i].fd);
    }
    if (control->listen_fd >= 0) {
        loop_remove(control->loop, control->listen_fd);
        (void)close(control->listen_fd);
        (void)unlink(control->path);
    }
    control->listen_fd = -1;
}

void control_event(struct control *control, const char *name, json_t *data)
{
    struct timespec now;
    json_t *event;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    event = json_pack("{s:s, s:{s:I, s:I}}", "event", name, "timestamp", "seconds",
                      (json_int_t)now.tv_sec, "microseconds", (json_int_t)(now.tv_nsec / 1000));
    if (event && data)
        (void)json_object_set(event, "data", data);
    json_decref(data);
    for (unsigned i = 0; event && i < CONTROL_MAX_CLIENTS; i++) {
        struct control_client *client = &control->client[i];

        if (client->fd >= 0 && client->negotiated) {
            control_client_send(client, json_incref(event));
            /* Written by the loop: a client must not vanish under whoever raised the event. */
            loop_change(control->loop, client->fd, EPOLLIN | (uint32_t)EPOLLOUT);
        }
    }
    json_decref(event);
}

int control_keep_fd(struct control *control, struct control_client *client, const char *name,
                    struct error *err)
{
    int old;

    if (client->received_fd < 0)
        return error_set(err, EBADF, "no descriptor came with getfd (SCM_RIGHTS)");
    if (strlen(name) >= sizeof(control->fds[0].name) || !name[0])
        return error_set(err, EINVAL, "a descriptor's name has 1 to %zu bytes",
                         sizeof(control->fds[0].name) - 1);
    old = control_take_fd(control, name);
    if (old >= 0)
        (void)close(old);
    for (unsigned i = 0; i < CONTROL_MAX_FDS; i++) {
        if (control->fds[i].fd >= 0)
            continue;
        (void)snprintf(control->fds[i].name, sizeof(control->fds[i].name), "%s", name);
        control->fds[i].fd = client->received_fd;
        control->fds[i].owner = client;
        client->received_fd = -1;
        return 0;
    }
    return error_set(err, ENOSPC, "%d descriptors are kept already: closefd one", CONTROL_MAX_FDS);
}

int control_take_fd(struct control *control, const char *name)
{
    for (unsigned i = 0; i < CONTROL_MAX_FDS; i++) {
        int fd = control->fds[i].fd;

        if (fd >= 0 && strcmp(control->fds[i].name, name) == 0) {
            control->fds[i].fd = -1;
            return fd;
        }
    }
    return -1;
}
