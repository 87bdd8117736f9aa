/* SPDX-License-Identifier: MIT
 *
 * The control socket: QMP as on QEMU's wire (docs/interop/qmp-spec in QEMU). Several clients at
 * once; none of them can block the control thread or make it keep unbounded memory. */
#ifndef TOOLS_CONTROL_H
#define TOOLS_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/json_frame.h"
#include "tools/loop.h"
#include "vmm/base/error.h"

#define CONTROL_MAX_CLIENTS 8
#define CONTROL_MAX_INPUT   (1u << 20)
#define CONTROL_MAX_OUTPUT  (4u << 20)
#define CONTROL_MAX_FDS     8

struct control;

struct control_client {
    struct control *control;
    int fd; /* -1: free */
    bool negotiated;
    bool closing; /* close once the output is written */
    char *input, *output;
    size_t input_bytes, output_bytes;
    size_t input_seen;       /* of input_bytes, what `frame` has read */
    struct json_frame frame; /* of the message that is coming in */
    int received_fd;         /* came with SCM_RIGHTS, for the next getfd; -1 = none */
};

/* A descriptor that a client passed with getfd. */
struct control_fd {
    char name[64];
    int fd;                             /* -1: free */
    const struct control_client *owner; /* it goes when the client goes */
};

/* Executes a command; returns the value of "return" (a new reference), or NULL with err set. */
typedef json_t *control_execute(void *opaque, struct control_client *client, const char *command,
                                json_t *arguments, struct error *err);

struct control {
    struct loop *loop;
    int listen_fd; /* -1: there is no control socket */
    const char *path;
    control_execute *execute;
    void *opaque;
    struct control_client client[CONTROL_MAX_CLIENTS];
    struct control_fd fds[CONTROL_MAX_FDS];
};

/* Makes control_close() harmless where control_open() is never reached. */
void control_init(struct control *control);
/* path NULL: no socket, and every other call is harmless. */
int control_open(struct control *control, const char *path, struct loop *loop,
                 control_execute *execute, void *opaque, struct error *err);
/* Writes out what clients still have to get (bounded), removes the socket. */
void control_close(struct control *control);

/* An event to every client that has negotiated; takes the reference to data (NULL: none). */
void control_event(struct control *control, const char *name, json_t *data);

/* getfd and closefd: names for descriptors that clients passed. */
int control_keep_fd(struct control *control, struct control_client *client, const char *name,
                    struct error *err);
/* The named descriptor, now the caller's; -1 where there is none. */
int control_take_fd(struct control *control, const char *name);

/* The version that greeting and query-version give. */
json_t *control_version(void);

#endif
