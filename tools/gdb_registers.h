/* SPDX-License-Identifier: MIT
 *
 * The registers in gdb's order, and the target description that tells gdb of that order (gdb
 * manual, appendix "Target Descriptions", "i386 Features"). */
#ifndef TOOLS_GDB_REGISTERS_H
#define TOOLS_GDB_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/x86/debug_registers.h"

/* 24 and x87, then bases and control registers. */
#define GDB_NREGISTERS       47
#define GDB_REGISTER_MAX     10
#define GDB_ALL_REGISTERS    332 /* bytes of all of them */
#define GDB_TARGET_XML_BYTES 8192

/* Bytes of one register; 0 where there is no such number. */
size_t gdb_register_bytes(uint64_t number);
/* One register in the guest's byte order, from or to `bytes` (gdb_register_bytes()). */
void gdb_register_get(const struct debug_registers *registers, unsigned number, uint8_t *bytes);
void gdb_register_set(struct debug_registers *registers, unsigned number, const uint8_t *bytes);

/* Writes target.xml into text (GDB_TARGET_XML_BYTES); returns its length. */
size_t gdb_target_xml(char *text);

#endif
