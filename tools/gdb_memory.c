/* SPDX-License-Identifier: MIT
 *
 * Packets about registers, memory and breakpoints. */
#include <errno.h>

#include "tools/gdb_commands_internal.h"
#include "tools/gdb_registers.h"

/* What fits a packet in hexadecimal. */
#define MEMORY_BYTES (GDB_PACKET_BYTES / 2)

static int get_registers(const struct gdb_session *session, struct debug_registers *registers)
{
    return session->target->ops->get_registers(session->target->opaque, session->cpu, registers);
}

static int set_registers(const struct gdb_session *session, const struct debug_registers *registers)
{
    return session->target->ops->set_registers(session->target->opaque, session->cpu, registers);
}

static void put_register(struct gdb_reply *reply, const struct debug_registers *registers,
                         unsigned number)
{
    uint8_t bytes[GDB_REGISTER_MAX];

    gdb_register_get(registers, number, bytes);
    gdb_put_bytes(reply, bytes, gdb_register_bytes(number));
}

static bool take_register(struct gdb_cursor *cursor, struct debug_registers *registers,
                          unsigned number)
{
    uint8_t bytes[GDB_REGISTER_MAX];

    if (!gdb_take_bytes(cursor, bytes, gdb_register_bytes(number)))
        return false;
    gdb_register_set(registers, number, bytes);
    return true;
}

enum gdb_next gdb_read_registers(struct gdb_session *session, struct gdb_cursor *cursor,
                                 struct gdb_reply *reply)
{
    struct debug_registers registers;
    int rc = gdb_left(cursor) ? -EINVAL : get_registers(session, &registers);

    if (rc)
        return gdb_answer(reply, rc);
    for (unsigned i = 0; i < GDB_NREGISTERS; i++)
        put_register(reply, &registers, i);
    return GDB_NEXT_REPLY;
}

/* A client that leaves registers out at the end leaves them as they are. */
enum gdb_next gdb_write_registers(struct gdb_session *session, struct gdb_cursor *cursor,
                                  struct gdb_reply *reply)
{
    struct debug_registers registers;
    int rc = get_registers(session, &registers);

    for (unsigned i = 0; !rc && i < GDB_NREGISTERS && gdb_left(cursor); i++) {
        if (!take_register(cursor, &registers, i))
            rc = -EINVAL;
    }
    if (!rc)
        rc = gdb_left(cursor) ? -EINVAL : set_registers(session, &registers);
    return gdb_answer(reply, rc);
}

enum gdb_next gdb_read_register(struct gdb_session *session, struct gdb_cursor *cursor,
                                struct gdb_reply *reply)
{
    struct debug_registers registers;
    uint64_t number;
    int rc = -EINVAL;

    if (gdb_take_number(cursor, &number) && !gdb_left(cursor) && gdb_register_bytes(number))
        rc = get_registers(session, &registers);
    if (rc)
        return gdb_answer(reply, rc);
    put_register(reply, &registers, (unsigned)number);
    return GDB_NEXT_REPLY;
}

enum gdb_next gdb_write_register(struct gdb_session *session, struct gdb_cursor *cursor,
                                 struct gdb_reply *reply)
{
    struct debug_registers registers;
    uint64_t number;
    int rc = -EINVAL;

    if (gdb_take_number(cursor, &number) && gdb_take_char(cursor, '=') &&
        gdb_register_bytes(number))
        rc = get_registers(session, &registers);
    if (!rc && (!take_register(cursor, &registers, (unsigned)number) || gdb_left(cursor)))
        rc = -EINVAL;
    return gdb_answer(reply, rc ? rc : set_registers(session, &registers));
}

/* ADDRESS,LENGTH */
static bool take_range(struct gdb_cursor *cursor, uint64_t *address, uint64_t *bytes)
{
    return gdb_take_number(cursor, address) && gdb_take_char(cursor, ',') &&
           gdb_take_number(cursor, bytes);
}

enum gdb_next gdb_read_memory(struct gdb_session *session, struct gdb_cursor *cursor,
                              struct gdb_reply *reply)
{
    uint8_t buffer[MEMORY_BYTES];
    uint64_t address, bytes;
    int rc = -EINVAL;

    if (take_range(cursor, &address, &bytes) && !gdb_left(cursor) && bytes <= sizeof(buffer))
        rc = session->target->ops->read(session->target->opaque, session->cpu, address, buffer,
                                        (size_t)bytes);
    if (rc)
        return gdb_answer(reply, rc);
    gdb_put_bytes(reply, buffer, (size_t)bytes);
    return GDB_NEXT_REPLY;
}

static int write_memory(const struct gdb_session *session, uint64_t address, const void *data,
                        uint64_t bytes)
{
    return session->target->ops->write(session->target->opaque, session->cpu, address, data,
                                       (size_t)bytes);
}

enum gdb_next gdb_write_memory(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    uint8_t buffer[MEMORY_BYTES];
    uint64_t address, bytes;
    int rc = -EINVAL;

    if (take_range(cursor, &address, &bytes) && gdb_take_char(cursor, ':') &&
        bytes <= sizeof(buffer) && gdb_take_bytes(cursor, buffer, (size_t)bytes) &&
        !gdb_left(cursor))
        rc = write_memory(session, address, buffer, bytes);
    return gdb_answer(reply, rc);
}

enum gdb_next gdb_write_binary(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    uint64_t address, bytes;
    int rc = -EINVAL;

    if (take_range(cursor, &address, &bytes) && gdb_take_char(cursor, ':') &&
        bytes == gdb_left(cursor))
        rc = write_memory(session, address, cursor->at, bytes);
    return gdb_answer(reply, rc);
}

/* TYPE,ADDRESS,LENGTH. False: not a type that a CPU has; x86 cannot watch reads alone. */
static bool take_kind(struct gdb_cursor *cursor, enum debug_point *kind)
{
    static const char types[] = {[DEBUG_POINT_SOFTWARE] = '0',
                                 [DEBUG_POINT_EXECUTE] = '1',
                                 [DEBUG_POINT_WRITE] = '2',
                                 [DEBUG_POINT_ACCESS] = '4'};

    for (unsigned i = 0; i < sizeof(types); i++) {
        if (gdb_take_char(cursor, types[i])) {
            *kind = (enum debug_point)i;
            return true;
        }
    }
    return false;
}

enum gdb_next gdb_insert_point(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    uint64_t address, bytes;
    enum debug_point kind;
    int rc = -EINVAL;

    if (!take_kind(cursor, &kind))
        return GDB_NEXT_REPLY;
    if (gdb_take_char(cursor, ',') && take_range(cursor, &address, &bytes) && !gdb_left(cursor))
        rc = session->target->ops->insert(session->target->opaque, session->cpu, kind, address,
                                          bytes);
    return gdb_answer(reply, rc);
}

enum gdb_next gdb_remove_point(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    uint64_t address, bytes;
    enum debug_point kind;
    int rc = -EINVAL;

    if (!take_kind(cursor, &kind))
        return GDB_NEXT_REPLY;
    if (gdb_take_char(cursor, ',') && take_range(cursor, &address, &bytes) && !gdb_left(cursor))
        rc = session->target->ops->remove(session->target->opaque, kind, address, bytes);
    return gdb_answer(reply, rc == -ENOENT ? 0 : rc); /* gdb removes twice to be sure */
}
