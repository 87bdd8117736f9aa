/* SPDX-License-Identifier: MIT
 *
 * Saved state as a flattened device tree: a writer that cannot be used wrongly halfway (errors are
 * kept and reported once), and a reader for trees from anywhere, which insists that every property
 * and node is understood. Integers are big-endian cells of 32 bits, 64-bit values two cells (high
 * first). A property whose name starts with "opt," may be ignored by who does not know it. */
#ifndef VMM_STATE_H
#define VMM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define STATE_MAX_BYTES      (1024u * 1024u)
#define STATE_MAX_PROPERTIES 128
#define STATE_MAX_NODES      64
#define STATE_NODE_NAME_MAX  32

/* One member of a C structure: `count` unsigned integers of `width` (1, 2, 4, 8) bytes. */
struct state_field {
    const char *name;
    uint16_t offset;
    uint8_t width;
    uint8_t count;
};

#define STATE_FIELD(type, member, property)                              \
    {                                                                    \
        property, offsetof(type, member), sizeof(((type *)0)->member), 1 \
    }
#define STATE_ARRAY(type, member, property)                               \
    {                                                                     \
        property, offsetof(type, member), sizeof(((type *)0)->member[0]), \
            sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0])  \
    }
#define STATE_COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct state_writer {
    void *fdt;
    int error; /* first libfdt error, 0 = none */
};

/* Begins a tree whose root says `compatible`. state_writer_finish() or _abort() must follow. */
int state_writer_begin(struct state_writer *writer, const char *compatible, struct error *err);
void state_begin_node(struct state_writer *writer, const char *name);
void state_end_node(struct state_writer *writer);
void state_put_u32(struct state_writer *writer, const char *name, uint32_t value);
void state_put_u64(struct state_writer *writer, const char *name, uint64_t value);
void state_put_cells(struct state_writer *writer, const char *name, const uint32_t *cells,
                     size_t ncells);
void state_put_bytes(struct state_writer *writer, const char *name, const void *data, size_t bytes);
void state_put_fields(struct state_writer *writer, const struct state_field *fields, size_t nfields,
                      const void *structure);
/* All fields as one property. */
void state_put_packed(struct state_writer *writer, const char *name,
                      const struct state_field *fields, size_t nfields, const void *structure);
/* The caller frees *fdt with free(). Nothing to abort after it, whatever it returns. */
int state_writer_finish(struct state_writer *writer, void **fdt, size_t *fdt_bytes,
                        struct error *err);
void state_writer_abort(struct state_writer *writer);

/* One node that is being read; remembers what was asked for. */
struct state_reader {
    const void *fdt;
    int node;
    char name[STATE_NODE_NAME_MAX];
    unsigned nseen;
    const void *seen[STATE_MAX_PROPERTIES]; /* the properties that were understood */
    unsigned nchildren;
    int children[STATE_MAX_NODES];
};

/* Checks the whole blob (size, fdt_check_full(), root's compatible) and opens its root. All of the
 * following return -EPROTO with node and property in err. */
int state_open(struct state_reader *root, const void *fdt, size_t fdt_bytes, const char *compatible,
               struct error *err);
int state_open_node(struct state_reader *root, const char *name, struct state_reader *node,
                    struct error *err);
/* Refuses what nobody asked for: unknown or repeated properties and nodes. */
int state_close(const struct state_reader *node, struct error *err);

bool state_has(const struct state_reader *node, const char *name);
int state_get_u32(struct state_reader *node, const char *name, uint32_t *value, struct error *err);
int state_get_u64(struct state_reader *node, const char *name, uint64_t *value, struct error *err);
/* Exactly ncells. */
int state_get_cells(struct state_reader *node, const char *name, uint32_t *cells, size_t ncells,
                    struct error *err);
/* Up to max bytes, borrowed from the blob (not aligned). */
int state_get_bytes(struct state_reader *node, const char *name, size_t max, const uint8_t **data,
                    size_t *bytes, struct error *err);
int state_get_fields(struct state_reader *node, const struct state_field *fields, size_t nfields,
                     void *structure, struct error *err);

int state_get_packed(struct state_reader *node, const char *name, const struct state_field *fields,
                     size_t nfields, void *structure, struct error *err);

/* A cell at any address. */
uint32_t state_cell(const void *at);

#endif
