/* SPDX-License-Identifier: MIT
 *
 * The other end of the control socket, for `migrate` and `ctl`: blocking, one request at a time. */
#ifndef TOOLS_QMP_CLIENT_H
#define TOOLS_QMP_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

typedef void qmp_client_event(void *opaque, json_t *event);

struct qmp_client {
    int fd;
    char *input;
    size_t input_bytes;
    qmp_client_event *on_event; /* NULL: events are dropped */
    void *opaque;
};

/* Connects and negotiates. */
int qmp_client_open(struct qmp_client *client, const char *path, struct error *err);
void qmp_client_close(struct qmp_client *client);

/* Runs a command, taking the reference to arguments (NULL: none). *value gets the "return" (a new
 * reference; may be NULL where it is not wanted). A refused command is -EREMOTEIO with the other
 * end's line; a closed connection is -ECONNRESET. send_fd >= 0 is passed along. */
int qmp_client_command(struct qmp_client *client, const char *name, json_t *arguments, int send_fd,
                       json_t **value, struct error *err);

/* Waits up to timeout_ms for events and reports them. */
int qmp_client_wait(struct qmp_client *client, int timeout_ms, struct error *err);

#endif
