/* SPDX-License-Identifier: MIT
 *
 * Packets that let the guest run. A signal's number means nothing to a guest and is passed over. */
#include <errno.h>

#include "tools/gdb_commands_internal.h"
#include "vmm/machine_tree.h"

enum gdb_next gdb_list_actions(struct gdb_session *session, struct gdb_cursor *cursor,
                               struct gdb_reply *reply)
{
    (void)session;
    (void)cursor;
    gdb_put_text(reply, "vCont;c;C;s;S");
    return GDB_NEXT_REPLY;
}

static enum gdb_next run(struct gdb_session *session, const enum machine_debug_run *each,
                         struct gdb_reply *reply)
{
    int rc = session->target->ops->run(session->target->opaque, each);

    if (rc)
        return gdb_answer(reply, rc);
    session->running = true;
    return GDB_NEXT_WAIT;
}

/* c, C, s or S with their signal. */
static bool take_action(struct gdb_cursor *cursor, enum machine_debug_run *action)
{
    uint64_t signal;
    bool wants_signal = true;

    if (gdb_take_char(cursor, 'c') || gdb_take_char(cursor, 's')) {
        wants_signal = false;
        *action = cursor->at[-1] == 'c' ? MACHINE_DEBUG_GO : MACHINE_DEBUG_STEP;
    } else if (gdb_take_char(cursor, 'C')) {
        *action = MACHINE_DEBUG_GO;
    } else if (gdb_take_char(cursor, 'S')) {
        *action = MACHINE_DEBUG_STEP;
    } else {
        return false;
    }
    return !wants_signal || gdb_take_number(cursor, &signal);
}

/* ;ACTION[:THREAD]… The first action that names a thread is that thread's; one without a thread is
 * everybody's who has none. Whoever has none stays where it is. */
enum gdb_next gdb_continue_each(struct gdb_session *session, struct gdb_cursor *cursor,
                                struct gdb_reply *reply)
{
    enum machine_debug_run each[MACHINE_MAX_CPUS] = {MACHINE_DEBUG_HOLD};
    unsigned ncpus = gdb_ncpus(session);
    bool any = false;

    while (gdb_left(cursor)) {
        enum machine_debug_run action;
        int cpu = GDB_ALL_CPUS;

        if (!gdb_take_char(cursor, ';') || !take_action(cursor, &action))
            return gdb_answer(reply, -EINVAL);
        if (gdb_take_char(cursor, ':') && !gdb_take_thread(session, cursor, &cpu))
            return gdb_answer(reply, -EINVAL);
        if (cpu == GDB_ANY_CPU)
            cpu = (int)session->cpu;
        for (unsigned i = 0; i < ncpus; i++) {
            if ((cpu == GDB_ALL_CPUS || (unsigned)cpu == i) && each[i] == MACHINE_DEBUG_HOLD) {
                each[i] = action;
                any = true;
            }
        }
    }
    return any ? run(session, each, reply) : gdb_answer(reply, -EINVAL);
}

static int set_rip(const struct gdb_session *session, uint64_t address)
{
    const struct gdb_target *target = session->target;
    struct debug_registers registers;
    int rc = target->ops->get_registers(target->opaque, session->run_cpu, &registers);

    registers.value[DEBUG_RIP] = address;
    return rc ? rc : target->ops->set_registers(target->opaque, session->run_cpu, &registers);
}

/* [ADDRESS], then all run, or one makes a step. */
static enum gdb_next resume_at(struct gdb_session *session, struct gdb_cursor *cursor, bool step,
                               struct gdb_reply *reply)
{
    enum machine_debug_run each[MACHINE_MAX_CPUS] = {MACHINE_DEBUG_HOLD};
    uint64_t address;
    int rc = 0;

    if (gdb_left(cursor))
        rc = gdb_take_number(cursor, &address) && !gdb_left(cursor) ? set_rip(session, address)
                                                                    : -EINVAL;
    if (rc)
        return gdb_answer(reply, rc);
    for (unsigned i = 0; !step && i < gdb_ncpus(session); i++)
        each[i] = MACHINE_DEBUG_GO;
    if (step)
        each[session->run_cpu] = MACHINE_DEBUG_STEP;
    return run(session, each, reply);
}

/* SIGNAL[;ADDRESS] */
static enum gdb_next resume_signal(struct gdb_session *session, struct gdb_cursor *cursor,
                                   bool step, struct gdb_reply *reply)
{
    uint64_t signal;

    if (!gdb_take_number(cursor, &signal) || (gdb_left(cursor) && !gdb_take_char(cursor, ';')))
        return gdb_answer(reply, -EINVAL);
    return resume_at(session, cursor, step, reply);
}

enum gdb_next gdb_continue(struct gdb_session *session, struct gdb_cursor *cursor,
                           struct gdb_reply *reply)
{
    return resume_at(session, cursor, false, reply);
}

enum gdb_next gdb_step(struct gdb_session *session, struct gdb_cursor *cursor,
                       struct gdb_reply *reply)
{
    return resume_at(session, cursor, true, reply);
}

enum gdb_next gdb_continue_signal(struct gdb_session *session, struct gdb_cursor *cursor,
                                  struct gdb_reply *reply)
{
    return resume_signal(session, cursor, false, reply);
}

enum gdb_next gdb_step_signal(struct gdb_session *session, struct gdb_cursor *cursor,
                              struct gdb_reply *reply)
{
    return resume_signal(session, cursor, true, reply);
}
