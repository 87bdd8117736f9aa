/* SPDX-License-Identifier: MIT
 *
 * A read-only walker over a flattened device tree (Devicetree Specification 0.4, chapter 5). Every
 * offset and length is checked against the blob. */
#ifndef GUEST_KERNEL_FDT_H
#define GUEST_KERNEL_FDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FDT_MAX_BYTES (1u << 20)

struct fdt {
    const uint8_t *structure, *strings;
    uint32_t structure_bytes, strings_bytes;
};

/* A property as the walk meets it. Borrowed from the blob. */
struct fdt_property {
    const char *name;
    const uint8_t *value;
    uint32_t bytes;
};

/* What fdt_walk() calls. `path` names the node ("" is the root, then "/cpus/cpu@0"); property is
 * NULL once per node, as it is entered. */
typedef void fdt_visit(void *opaque, const char *path, const struct fdt_property *property);

/* False unless [blob, blob + bytes) begins with a sound header. */
bool fdt_open(struct fdt *fdt, const void *blob, size_t bytes);
/* Visits every node and property in order. False where the structure is broken, cut off or nested
 * too deeply; what was visited before stays visited. */
bool fdt_walk(const struct fdt *fdt, fdt_visit *visit, void *opaque);

/* The n-th big-endian cell, 0 where the property is shorter. */
uint32_t fdt_cell(const struct fdt_property *property, unsigned n);
/* A value of one or two cells, by the property's length. */
uint64_t fdt_number(const struct fdt_property *property);
/* Is `text` one of the strings of this list? */
bool fdt_lists(const struct fdt_property *property, const char *text);

#endif
