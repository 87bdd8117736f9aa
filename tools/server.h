/* SPDX-License-Identifier: MIT
 *
 * The process that holds a guest, however it came by it: `run` boots one, `receive` waits for one.
 * Joins the loop, the console, the control socket and the outgoing migration. Everything here
 * happens in the control thread. */
#ifndef TOOLS_SERVER_H
#define TOOLS_SERVER_H

#include <stdbool.h>

#include "tools/console.h"
#include "tools/control.h"
#include "tools/gdb_server.h"
#include "tools/loop.h"
#include "tools/migration.h"
#include "tools/migration_events.h"
#include "tools/vm_host.h"

enum server_exit {
    SERVER_EXIT_FAILURE = 1,
    SERVER_EXIT_USAGE = 2,
    SERVER_EXIT_IN_DOUBT = 3,
};

struct server_options {
    const char *control_path; /* NULL: none */
    const char *serial;       /* console_open() */
    const char *gdb;          /* gdb_server_open(); NULL: none */
};

struct server {
    struct loop loop;
    struct vm_host host;
    struct console console;
    struct control control;
    struct migration migration;
    struct gdb_server gdb;
    struct migration_events events;
    int signal_fd;
    int exit_code;
    bool guest_ended; /* reported */
    bool has_guest;
};

/* All but a guest. server_destroy() also after a failure. */
int server_init(struct server *server, const struct server_options *options, struct error *err);
void server_destroy(struct server *server);

/* The host has a machine: its console and its end are watched from now on. */
void server_adopt_machine(struct server *server);

/* Serves until the guest ends or somebody quits; returns the process's exit status. */
int server_run(struct server *server);

/* A migration that was in doubt is no more: clients are told. */
void server_migration_settled(struct server *server);

/* Ends the loop. What is under way is cancelled; the status is 3 where the guest's owner is in
 * doubt. */
void server_quit(struct server *server);

/* QEMU's name of the run state. */
const char *server_run_state(struct server *server);

/* The command table, for the control socket. */
json_t *qmp_execute(void *opaque, struct control_client *client, const char *command,
                    json_t *arguments, struct error *err);

#endif
