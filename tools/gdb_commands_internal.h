/* SPDX-License-Identifier: MIT
 *
 * The packets that gdb_commands.c has in its table and gdb_memory.c and gdb_resume.c execute. */
#ifndef TOOLS_GDB_COMMANDS_INTERNAL_H
#define TOOLS_GDB_COMMANDS_INTERNAL_H

#include "tools/gdb_commands.h"

/* cursor: what follows the packet's name. */
typedef enum gdb_next gdb_command(struct gdb_session *session, struct gdb_cursor *cursor,
                                  struct gdb_reply *reply);

/* gdb_memory.c: registers, memory, breakpoints */
gdb_command gdb_read_registers, gdb_write_registers, gdb_read_register, gdb_write_register;
gdb_command gdb_read_memory, gdb_write_memory, gdb_write_binary;
gdb_command gdb_insert_point, gdb_remove_point;

/* gdb_resume.c */
gdb_command gdb_list_actions, gdb_continue_each, gdb_continue, gdb_continue_signal;
gdb_command gdb_step, gdb_step_signal;

/* OK, or E and the errno. */
enum gdb_next gdb_answer(struct gdb_reply *reply, int rc);

unsigned gdb_ncpus(const struct gdb_session *session);

/* A thread's number; as a vCPU, or one of these. False where there is none. */
#define GDB_ANY_CPU  (-1)
#define GDB_ALL_CPUS (-2)
bool gdb_take_thread(const struct gdb_session *session, struct gdb_cursor *cursor, int *cpu);

#endif
