/* SPDX-License-Identifier: MIT
 *
 * Where a migration goes to or comes from: tcp:HOST:PORT, unix:PATH, exec:COMMAND, fd:N,
 * file:PATH. */
#ifndef TOOLS_URI_H
#define TOOLS_URI_H

#include <stdint.h>
#include <sys/types.h>

#include "vmm/base/error.h"

#define URI_MAX_BYTES 4096

enum uri_kind { URI_TCP, URI_UNIX, URI_EXEC, URI_FD, URI_FILE };

struct uri {
    enum uri_kind kind;
    char host[256];           /* tcp; "127.0.0.1" where none was given */
    char port[8];             /* tcp */
    char rest[URI_MAX_BYTES]; /* path, command, or descriptor number or name */
};

/* -EINVAL with the accepted forms. */
int uri_parse(const char *text, struct uri *uri, struct error *err);

/* Connects tcp and unix within deadline_ns, or until cancel_fd is readable (-1: none): *fd is a
 * stream socket. */
int uri_connect(const struct uri *uri, uint64_t deadline_ns, int cancel_fd, int *fd,
                struct error *err);

/* Connects once more to the very address that stream socket `like` is connected to: a name may
 * stand for several hosts, and the next lookup may choose another. `uri` is for the words. */
int uri_connect_again(const struct uri *uri, int like, uint64_t deadline_ns, int cancel_fd, int *fd,
                      struct error *err);

/* Starts `/bin/sh -c COMMAND` with one end of a socket pair as its standard input and output; *fd
 * is the other. */
/* The command has a session of its own. */
int uri_spawn(const struct uri *uri, int *fd, pid_t *child, struct error *err);

/* Waits for the command for a grace period, then ends it and all it started. */
void uri_reap(pid_t child);

/* Leaves the command alone, with the guest that it carries; its end is taken note of. */
void uri_leave(pid_t child);

/* Listens on tcp or unix; `chosen` (URI_MAX_BYTES) gets the URI to connect to, with the port that
 * was chosen. A socket file left by a dead process is replaced. */
int uri_listen(const struct uri *uri, int *fd, char *chosen, struct error *err);

/* A listening UNIX stream socket, for the control socket too. mode 0600. */
int uri_listen_unix(const char *path, int *fd, struct error *err);

#endif
