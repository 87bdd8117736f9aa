/* SPDX-License-Identifier: MIT
 *
 * The table of packets, and those about threads and about the stub itself. */
#include "tools/gdb_commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/gdb_commands_internal.h"
#include "tools/gdb_registers.h"

#define SIGNAL_INTERRUPT 2 /* gdb's numbers */
#define SIGNAL_TRAP      5

void gdb_session_begin(struct gdb_session *session, const struct gdb_target *target)
{
    memset(session, 0, sizeof(*session));
    session->target = target;
}

enum gdb_next gdb_answer(struct gdb_reply *reply, int rc)
{
    char text[4];

    if (!rc) {
        gdb_put_text(reply, "OK");
        return GDB_NEXT_REPLY;
    }
    reply->bytes = 0;
    (void)snprintf(text, sizeof(text), "E%02x", -rc & 0xff);
    gdb_put_text(reply, text);
    return GDB_NEXT_REPLY;
}

unsigned gdb_ncpus(const struct gdb_session *session)
{
    return session->target->ops->ncpus(session->target->opaque);
}

bool gdb_take_thread(const struct gdb_session *session, struct gdb_cursor *cursor, int *cpu)
{
    uint64_t thread;

    *cpu = GDB_ANY_CPU;
    if (gdb_take_word(cursor, "-1")) {
        *cpu = GDB_ALL_CPUS;
        return true;
    }
    if (!gdb_take_number(cursor, &thread) || thread > gdb_ncpus(session))
        return false;
    if (thread)
        *cpu = (int)thread - 1;
    return true;
}

static void put_reason(const struct gdb_session *session, struct gdb_reply *reply)
{
    const struct machine_debug_stop *stop = &session->stop;

    if (stop->cause != MACHINE_DEBUG_POINT)
        return;
    switch (stop->kind) {
    case DEBUG_POINT_SOFTWARE:
        if (session->tell_swbreak)
            gdb_put_text(reply, "swbreak:;");
        return;
    case DEBUG_POINT_EXECUTE:
        if (session->tell_hwbreak)
            gdb_put_text(reply, "hwbreak:;");
        return;
    case DEBUG_POINT_WRITE:
        gdb_put_text(reply, "watch:");
        break;
    case DEBUG_POINT_ACCESS:
        gdb_put_text(reply, "awatch:");
        break;
    }
    gdb_put_number(reply, stop->address);
    gdb_put_text(reply, ";");
}

static enum gdb_next tell_stop(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    (void)cursor;
    gdb_put_text(reply, session->interrupted ? "T02" : "T05");
    gdb_put_text(reply, "thread:");
    gdb_put_number(reply, session->stop.cpu + 1);
    gdb_put_text(reply, ";");
    put_reason(session, reply);
    return GDB_NEXT_REPLY;
}

void gdb_session_stopped(struct gdb_session *session, const struct machine_debug_stop *stop,
                         bool interrupted, struct gdb_reply *reply)
{
    reply->bytes = 0;
    session->running = false;
    session->interrupted = interrupted && stop->cause == MACHINE_DEBUG_NOTHING;
    session->stop = *stop;
    if (stop->cause == MACHINE_DEBUG_NOTHING)
        session->stop.cpu = session->cpu; /* where the user is */
    session->cpu = session->run_cpu = session->stop.cpu;
    (void)tell_stop(session, NULL, reply);
}

/* Hg and Hc. */
static enum gdb_next choose_thread(struct gdb_session *session, struct gdb_cursor *cursor,
                                   struct gdb_reply *reply)
{
    bool general = gdb_take_char(cursor, 'g');
    int cpu;

    if (!general && !gdb_take_char(cursor, 'c'))
        return GDB_NEXT_REPLY; /* there is nothing else: not supported */
    if (!gdb_take_thread(session, cursor, &cpu) || gdb_left(cursor))
        return gdb_answer(reply, -EINVAL);
    if (cpu >= 0 && general)
        session->cpu = (unsigned)cpu;
    if (!general)
        session->run_cpu = cpu >= 0 ? (unsigned)cpu : session->cpu;
    return gdb_answer(reply, 0);
}

static enum gdb_next is_alive(struct gdb_session *session, struct gdb_cursor *cursor,
                              struct gdb_reply *reply)
{
    int cpu;

    return gdb_answer(reply, gdb_take_thread(session, cursor, &cpu) && cpu >= 0 ? 0 : -EINVAL);
}

static enum gdb_next list_threads(struct gdb_session *session, struct gdb_cursor *cursor,
                                  struct gdb_reply *reply)
{
    (void)cursor;
    for (unsigned i = 0; i < gdb_ncpus(session); i++) {
        gdb_put_text(reply, i ? "," : "m");
        gdb_put_number(reply, i + 1);
    }
    return GDB_NEXT_REPLY;
}

static enum gdb_next list_no_more(struct gdb_session *session, struct gdb_cursor *cursor,
                                  struct gdb_reply *reply)
{
    (void)session;
    (void)cursor;
    gdb_put_text(reply, "l");
    return GDB_NEXT_REPLY;
}

static enum gdb_next this_thread(struct gdb_session *session, struct gdb_cursor *cursor,
                                 struct gdb_reply *reply)
{
    if (gdb_left(cursor))
        return GDB_NEXT_REPLY; /* another packet, whose name begins so */
    gdb_put_text(reply, "QC");
    gdb_put_number(reply, session->cpu + 1);
    return GDB_NEXT_REPLY;
}

static enum gdb_next describe_thread(struct gdb_session *session, struct gdb_cursor *cursor,
                                     struct gdb_reply *reply)
{
    char text[24];
    int cpu;

    if (!gdb_take_thread(session, cursor, &cpu) || cpu < 0)
        return gdb_answer(reply, -EINVAL);
    (void)snprintf(text, sizeof(text), "vCPU %d", cpu);
    gdb_put_bytes(reply, text, strlen(text));
    return GDB_NEXT_REPLY;
}

/* 1: it was there before the debugger, which therefore detaches and does not kill when it leaves.
 */
static enum gdb_next was_attached(struct gdb_session *session, struct gdb_cursor *cursor,
                                  struct gdb_reply *reply)
{
    (void)session;
    (void)cursor;
    gdb_put_text(reply, "1");
    return GDB_NEXT_REPLY;
}

static bool has_feature(const struct gdb_cursor *cursor, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = cursor->at; (size_t)(cursor->end - at) >= length; at++) {
        if (memcmp(at, name, length) == 0)
            return true;
    }
    return false;
}

static enum gdb_next tell_supported(struct gdb_session *session, struct gdb_cursor *cursor,
                                    struct gdb_reply *reply)
{
    session->tell_swbreak = has_feature(cursor, "swbreak+");
    session->tell_hwbreak = has_feature(cursor, "hwbreak+");
    gdb_put_text(reply, "PacketSize=");
    gdb_put_number(reply, GDB_PACKET_BYTES);
    gdb_put_text(reply, ";QStartNoAckMode+;qXfer:features:read+;swbreak+;hwbreak+;vContSupported+");
    return GDB_NEXT_REPLY;
}

static enum gdb_next stop_acks(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    (void)cursor;
    session->no_ack = true;
    return gdb_answer(reply, 0);
}

/* ANNEX:OFFSET,LENGTH; m before a part that has more behind it, l before the last. */
static enum gdb_next read_features(struct gdb_session *session, struct gdb_cursor *cursor,
                                   struct gdb_reply *reply)
{
    static char xml[GDB_TARGET_XML_BYTES]; /* the control thread's */
    size_t bytes = gdb_target_xml(xml);
    uint64_t offset, length;

    (void)session;
    if (!gdb_take_word(cursor, "target.xml:"))
        return gdb_answer(reply, -ENOENT);
    if (!gdb_take_number(cursor, &offset) || !gdb_take_char(cursor, ',') ||
        !gdb_take_number(cursor, &length) || gdb_left(cursor) || offset > bytes)
        return gdb_answer(reply, -EINVAL);
    if (length > GDB_PACKET_BYTES - 1)
        length = GDB_PACKET_BYTES - 1;
    if (length >= bytes - offset)
        length = bytes - offset;
    gdb_put_text(reply, offset + length < bytes ? "m" : "l");
    gdb_put_raw(reply, xml + offset, (size_t)length);
    return GDB_NEXT_REPLY;
}

static enum gdb_next detach(struct gdb_session *session, struct gdb_cursor *cursor,
                            struct gdb_reply *reply)
{
    (void)session;
    (void)cursor;
    (void)gdb_answer(reply, 0);
    return GDB_NEXT_DETACH;
}

static enum gdb_next kill_guest(struct gdb_session *session, struct gdb_cursor *cursor,
                                struct gdb_reply *reply)
{
    (void)session;
    (void)cursor;
    (void)reply;
    return GDB_NEXT_KILL;
}

static enum gdb_next kill_with_answer(struct gdb_session *session, struct gdb_cursor *cursor,
                                      struct gdb_reply *reply)
{
    (void)session;
    (void)cursor;
    (void)gdb_answer(reply, 0);
    return GDB_NEXT_KILL;
}

static bool ends_the_session(gdb_command *execute)
{
    return execute == kill_guest || execute == kill_with_answer || execute == detach;
}

/* The first that fits; a longer name stands before a shorter one that it begins with. An empty
 * answer says that there is no such packet. */
static const struct {
    const char *name;
    gdb_command *execute;
} commands[] = {
    {"?", tell_stop},
    {"g", gdb_read_registers},
    {"G", gdb_write_registers},
    {"p", gdb_read_register},
    {"P", gdb_write_register},
    {"m", gdb_read_memory},
    {"M", gdb_write_memory},
    {"X", gdb_write_binary},
    {"Z", gdb_insert_point},
    {"z", gdb_remove_point},
    {"vCont?", gdb_list_actions},
    {"vCont", gdb_continue_each},
    {"c", gdb_continue},
    {"C", gdb_continue_signal},
    {"s", gdb_step},
    {"S", gdb_step_signal},
    {"H", choose_thread},
    {"T", is_alive},
    {"qfThreadInfo", list_threads},
    {"qsThreadInfo", list_no_more},
    {"qThreadExtraInfo,", describe_thread},
    {"qC", this_thread},
    {"qAttached", was_attached},
    {"qSupported", tell_supported},
    {"qXfer:features:read:", read_features},
    {"QStartNoAckMode", stop_acks},
    {"D", detach},
    {"vKill;", kill_with_answer},
    {"k", kill_guest},
};

enum gdb_next gdb_session_handle(struct gdb_session *session, const char *body, size_t bytes,
                                 struct gdb_reply *reply)
{
    struct gdb_cursor cursor = {body, body + bytes};

    reply->bytes = 0;
    reply->overflowed = false;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        enum gdb_next next;

        if (!gdb_take_word(&cursor, commands[i].name))
            continue;
        /* While it waits for a stop, a client may only leave. */
        if (session->running && !ends_the_session(commands[i].execute))
            return GDB_NEXT_WAIT;
        next = commands[i].execute(session, &cursor, reply);
        return reply->overflowed ? gdb_answer(reply, -E2BIG) : next;
    }
    return session->running ? GDB_NEXT_WAIT : GDB_NEXT_REPLY;
}
