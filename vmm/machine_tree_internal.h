/* SPDX-License-Identifier: MIT
 *
 * What the writer and the reader of the machine tree share. Internal to machine_tree*.c.
 *
 *   /               compatible "pageferry,machine-v1"; 64-bit addresses and sizes
 *   /chosen         bootargs, stdout-path
 *   /memory@0       reg: RAM below the 32-bit gap and, where there is more, from 4 GiB on
 *   /cpus           pageferry,tsc-khz (u64), pageferry,cpuid (seven cells an entry, in the order
 *                   of struct machine_cpuid_entry)
 *   /cpus/cpu@N     reg N, which is the APIC id too
 *   /serial@3f8     ns16550a            Devices on I/O ports are addressed in port space:
 *   /exit@PORT      the exit port       reg is <port bytes>, whatever the root's cells are.
 *   /probe@5e0      the probe device; its MMIO window is pageferry,mmio (u64 address, u64 bytes)
 *   /framebuffer@e0000000   optional: memory that is no RAM; reg is its u64 address and u64 bytes
 */
#ifndef VMM_MACHINE_TREE_INTERNAL_H
#define VMM_MACHINE_TREE_INTERNAL_H

#include <stdbool.h>

#include "vmm/machine_tree.h"

#define TREE_COMPATIBLE_MACHINE "pageferry,machine-v1"
#define TREE_COMPATIBLE_SERIAL  "ns16550a"
#define TREE_COMPATIBLE_EXIT    "pageferry,exit-port"
#define TREE_COMPATIBLE_PROBE   "pageferry,probe"
#define TREE_COMPATIBLE_FB      "pageferry,framebuffer"
#define TREE_STDOUT_PATH        "/serial@3f8"
#define TREE_TSC_KHZ            "pageferry,tsc-khz"
#define TREE_CPUID              "pageferry,cpuid"
#define TREE_MMIO               "pageferry,mmio"
#define TREE_CPUID_CELLS        7
#define TREE_SERIAL_BYTES       8
#define TREE_SERIAL_CLOCK_HZ    1843200
#define TREE_EXIT_BYTES         4

/* RAM below the gap; the rest is at MEMORY_GAP_END. */
uint64_t machine_tree_low_bytes(uint64_t memory_bytes);

/* Checks every value's range; `code` (a positive errno) is what a bad one returns, and `where` goes
 * before the line. */
int machine_tree_check(const struct machine_description *description, int code, const char *where,
                       struct error *err);

/* ---- Reading. The rules say what a tree must hold, the walker holds a tree against them. */

#define TREE_MAX_FIXED_CELLS 4
#define TREE_PATH_BYTES      64

struct tree_parser {
    const void *fdt;
    struct machine_description *out;
    struct error *err;
    char path[TREE_PATH_BYTES]; /* of the node at hand, for messages */
    uint64_t unit;              /* address part of its reg */
    uint32_t cpus_seen;         /* bit N: cpu@N was there */
};

/* A property that a node must have, once. Either its value is fixed (text, or ncells cells) or
 * `take` stores it. */
struct tree_property_rule {
    const char *name;
    int (*take)(struct tree_parser *p, const char *name, const uint8_t *data, unsigned bytes);
    const char *text;
    unsigned ncells;
    uint32_t cells[TREE_MAX_FIXED_CELLS];
};

enum tree_node_count { TREE_NODE_ONCE, TREE_NODE_OPTIONAL, TREE_NODE_MANY };

struct tree_node_rule {
    const char *name; /* up to the '@' */
    bool has_unit;    /* "name@UNIT", where UNIT is the address in reg */
    enum tree_node_count count;
    const struct tree_property_rule *properties; /* ends with a NULL name */
    const struct tree_node_rule *children;       /* ends with a NULL name */
};

/* The root's rule (machine_tree_rules.c). */
extern const struct tree_node_rule machine_tree_root;

/* -EPROTO with the node at hand, the property (may be empty) and what is wrong. */
int machine_tree_bad(const struct tree_parser *p, const char *property, const char *what);

/* The index-th big-endian cell of a property. */
uint32_t machine_tree_cell(const uint8_t *data, unsigned index);

#endif
