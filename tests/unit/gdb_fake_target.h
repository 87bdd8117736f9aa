/* SPDX-License-Identifier: MIT
 *
 * A guest for a debugger that is nothing but arrays. */
#ifndef TESTS_UNIT_GDB_FAKE_TARGET_H
#define TESTS_UNIT_GDB_FAKE_TARGET_H

#include "tools/gdb_commands.h"
#include "vmm/machine_tree.h"

#define FAKE_BASE  0x1000u
#define FAKE_BYTES 8192u
#define FAKE_CPUS  3u

struct gdb_fake_target {
    struct debug_registers registers[FAKE_CPUS];
    uint8_t memory[FAKE_BYTES]; /* at FAKE_BASE; nothing else is mapped */
    unsigned runs;
    enum machine_debug_run each[MACHINE_MAX_CPUS];
    unsigned inserted, removed;
    enum debug_point kind;
    uint64_t address, bytes;
    int fail; /* what every operation returns, where not 0 */
};

extern const struct gdb_target_ops gdb_fake_ops;

#endif
