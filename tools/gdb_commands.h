/* SPDX-License-Identifier: MIT
 *
 * What a debugger asks for over gdb's remote serial protocol, and the answers; all-stop mode, one
 * thread of the client for each vCPU: thread N + 1 is vCPU N. Knows the guest only through struct
 * gdb_target, and no socket. Packets are not trusted. */
#ifndef TOOLS_GDB_COMMANDS_H
#define TOOLS_GDB_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/gdb_text.h"
#include "vmm/machine_debug.h"

/* The guest. Each returns 0 or -errno; the contracts are those of vmm/machine_debug.h. */
struct gdb_target_ops {
    unsigned (*ncpus)(void *opaque);
    int (*get_registers)(void *opaque, unsigned cpu, struct debug_registers *registers);
    int (*set_registers)(void *opaque, unsigned cpu, const struct debug_registers *registers);
    int (*read)(void *opaque, unsigned cpu, uint64_t address, void *buffer, size_t bytes);
    int (*write)(void *opaque, unsigned cpu, uint64_t address, const void *buffer, size_t bytes);
    int (*insert)(void *opaque, unsigned cpu, enum debug_point kind, uint64_t address,
                  uint64_t bytes);
    int (*remove)(void *opaque, enum debug_point kind, uint64_t address, uint64_t bytes);
    int (*run)(void *opaque, const enum machine_debug_run *each);
};

struct gdb_target {
    const struct gdb_target_ops *ops;
    void *opaque;
};

struct gdb_session {
    const struct gdb_target *target;
    unsigned cpu;      /* that registers and memory are asked of: Hg, and the one that stopped */
    unsigned run_cpu;  /* that s and c with an address are about: Hc */
    bool running;      /* the client waits for a stop */
    bool no_ack;       /* QStartNoAckMode was answered */
    bool tell_swbreak; /* the client knows these stop reasons */
    bool tell_hwbreak;
    struct machine_debug_stop stop; /* the last one */
    bool interrupted;               /* it was asked for by the client */
};

/* What the one who carries packets does next. */
enum gdb_next {
    GDB_NEXT_REPLY,  /* sends the reply */
    GDB_NEXT_WAIT,   /* nothing now: the guest runs, or there is no answer to that */
    GDB_NEXT_DETACH, /* sends the reply, and the guest runs on without the debugger */
    GDB_NEXT_KILL,   /* sends the reply if it has a body; the guest ends */
};

/* The guest stands. */
void gdb_session_begin(struct gdb_session *session, const struct gdb_target *target);

/* One packet's body; a NUL stands behind it. */
enum gdb_next gdb_session_handle(struct gdb_session *session, const char *body, size_t bytes,
                                 struct gdb_reply *reply);

/* The guest has stopped: what a waiting client is told. interrupted: by a Ctrl-C, unless `stop`
 * gives another reason. */
void gdb_session_stopped(struct gdb_session *session, const struct machine_debug_stop *stop,
                         bool interrupted, struct gdb_reply *reply);

#endif
