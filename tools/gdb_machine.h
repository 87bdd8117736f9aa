/* SPDX-License-Identifier: MIT
 *
 * The guest of this process as a debugger's target. The control thread. */
#ifndef TOOLS_GDB_MACHINE_H
#define TOOLS_GDB_MACHINE_H

#include "tools/gdb_commands.h"
#include "tools/vm_host.h"

/* opaque of the target is the struct vm_host. */
extern const struct gdb_target_ops gdb_machine_ops;

#endif
