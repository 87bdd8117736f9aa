/* SPDX-License-Identifier: MIT
 *
 * Where a debugger connects: a socket that speaks gdb's remote serial protocol, one client at a
 * time. A client is attached with its first packet, not by connecting, so that a port scanner does
 * not stop a guest. There is no authentication. Everything here happens in the control thread. */
#ifndef TOOLS_GDB_SERVER_H
#define TOOLS_GDB_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/gdb_commands.h"
#include "tools/gdb_packet.h"
#include "tools/loop.h"
#include "tools/migration.h"
#include "tools/uri.h"
#include "tools/vm_host.h"

/* What waits to be written; a client that lets more come together is dropped. */
#define GDB_SERVER_MAX_OUTPUT (8 * GDB_PACKET_WIRE_BYTES)

struct gdb_server {
    struct loop *loop;
    struct vm_host *host;
    const struct migration *migration; /* none may be under way */
    void (*kill)(void *opaque);        /* the debugger ends the guest */
    void *opaque;
    struct gdb_target target;
    struct uri uri;
    int listen_fd; /* -1: there is no such socket */
    int fd;        /* -1: nobody is connected */
    bool attached;
    bool runs_on; /* the guest does, when the client goes away without a word */
    bool complained;
    struct gdb_session session;
    struct gdb_packet_reader reader;
    size_t last_bytes, output_bytes;
    uint8_t last[GDB_PACKET_WIRE_BYTES]; /* sent again after a - */
    uint8_t output[GDB_SERVER_MAX_OUTPUT];
};

struct gdb_server_options {
    struct loop *loop;
    struct vm_host *host;
    const struct migration *migration;
    void (*kill)(void *opaque);
    void *opaque;
};

/* Makes every other call harmless where gdb_server_open() is never reached. */
void gdb_server_init(struct gdb_server *gdb);

/* Listens at tcp:HOST:PORT, tcp::PORT (loopback) or unix:PATH, and says where. -EINVAL with the
 * accepted forms. The guest must be there before the loop runs. */
int gdb_server_open(struct gdb_server *gdb, const char *address,
                    const struct gdb_server_options *options, struct error *err);

/* The guest's event descriptor was readable: tells the client of a vCPU that stopped. */
void gdb_server_look(struct gdb_server *gdb);

/* The guest has ended; the client is told how, and goes. */
void gdb_server_guest_ended(struct gdb_server *gdb, const struct machine_exit *end);

/* Lets the client go, leaves the guest standing without breakpoints, and listens no more. */
void gdb_server_close(struct gdb_server *gdb);

#endif
