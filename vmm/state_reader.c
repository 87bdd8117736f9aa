/* SPDX-License-Identifier: MIT
 *
 * Saved state, reading side. The blob is checked as a whole before anything is looked up, so that
 * libfdt's accessors stay inside it. */
#include <endian.h>
#include <errno.h>
#include <libfdt.h>
#include <stdio.h>
#include <string.h>

#include "vmm/state.h"

#define OPTIONAL_PREFIX "opt,"

uint32_t state_cell(const void *at)
{
    uint32_t cell;

    memcpy(&cell, at, sizeof(cell));
    return be32toh(cell);
}

static void reader_init(struct state_reader *node, const void *fdt, int offset, const char *name)
{
    node->fdt = fdt;
    node->node = offset;
    node->nseen = 0;
    node->nchildren = 0;
    (void)snprintf(node->name, sizeof(node->name), "%s", name);
}

/* The property, or NULL; remembers that it was asked for. */
static const uint8_t *find(struct state_reader *node, const char *name, int *bytes)
{
    const struct fdt_property *property = fdt_get_property(node->fdt, node->node, name, bytes);

    if (!property || node->nseen == STATE_MAX_PROPERTIES)
        return NULL;
    node->seen[node->nseen++] = property;
    return (const uint8_t *)property->data;
}

static const uint8_t *need(struct state_reader *node, const char *name, int *bytes,
                           struct error *err)
{
    const uint8_t *data = find(node, name, bytes);

    if (!data)
        (void)error_set(err, EPROTO, "saved state: /%s has no property %s", node->name, name);
    return data;
}

static int wrong_size(const struct state_reader *node, const char *name, int bytes, size_t wanted,
                      struct error *err)
{
    return error_set(err, EPROTO, "saved state: /%s/%s has %d bytes, not %zu", node->name, name,
                     bytes, wanted);
}

int state_open(struct state_reader *root, const void *fdt, size_t fdt_bytes, const char *compatible,
               struct error *err)
{
    const uint8_t *found;
    int bytes, ret;

    if (fdt_bytes < sizeof(struct fdt_header) || fdt_bytes > STATE_MAX_BYTES)
        return error_set(err, EPROTO, "saved state: %zu bytes, 40 to %u are accepted", fdt_bytes,
                         STATE_MAX_BYTES);
    ret = fdt_check_full(fdt, fdt_bytes);
    if (ret)
        return error_set(err, EPROTO, "saved state: not a valid tree: %s", fdt_strerror(ret));
    reader_init(root, fdt, 0, "");
    found = need(root, "compatible", &bytes, err);
    if (!found)
        return -EPROTO;
    if ((size_t)bytes != strlen(compatible) + 1 || memcmp(found, compatible, (size_t)bytes) != 0)
        return error_set(err, EPROTO, "saved state: compatible is not \"%s\"", compatible);
    return 0;
}

int state_open_node(struct state_reader *root, const char *name, struct state_reader *node,
                    struct error *err)
{
    int offset = fdt_subnode_offset(root->fdt, root->node, name);

    if (offset < 0 || root->nchildren == STATE_MAX_NODES)
        return error_set(err, EPROTO, "saved state: there is no node /%s", name);
    root->children[root->nchildren++] = offset;
    reader_init(node, root->fdt, offset, name);
    return 0;
}

static bool child_seen(const struct state_reader *node, int offset)
{
    for (unsigned i = 0; i < node->nchildren; i++) {
        if (node->children[i] == offset)
            return true;
    }
    return false;
}

static bool property_seen(const struct state_reader *node, const void *property)
{
    for (unsigned i = 0; i < node->nseen; i++) {
        if (node->seen[i] == property)
            return true;
    }
    return false;
}

int state_close(const struct state_reader *node, struct error *err)
{
    int offset;

    fdt_for_each_property_offset(offset, node->fdt, node->node)
    {
        const struct fdt_property *property = fdt_get_property_by_offset(node->fdt, offset, NULL);
        const char *name;

        if (!property || property_seen(node, property))
            continue;
        name = fdt_string(node->fdt, (int)fdt32_to_cpu(property->nameoff));
        if (name && strncmp(name, OPTIONAL_PREFIX, strlen(OPTIONAL_PREFIX)) == 0)
            continue;
        return error_set(err, EPROTO, "saved state: /%s has an unknown property %.64s", node->name,
                         name ? name : "?");
    }
    fdt_for_each_subnode(offset, node->fdt, node->node)
    {
        const char *name = fdt_get_name(node->fdt, offset, NULL);

        if (!child_seen(node, offset))
            return error_set(err, EPROTO, "saved state: /%s has an unknown node %.64s", node->name,
                             name ? name : "?");
    }
    return 0;
}

bool state_has(const struct state_reader *node, const char *name)
{
    return fdt_get_property(node->fdt, node->node, name, NULL) != NULL;
}

int state_get_cells(struct state_reader *node, const char *name, uint32_t *cells, size_t ncells,
                    struct error *err)
{
    int bytes;
    const uint8_t *data = need(node, name, &bytes, err);

    if (!data)
        return -EPROTO;
    if ((size_t)bytes != ncells * sizeof(uint32_t))
        return wrong_size(node, name, bytes, ncells * sizeof(uint32_t), err);
    for (size_t i = 0; i < ncells; i++)
        cells[i] = state_cell(data + i * sizeof(uint32_t));
    return 0;
}

int state_get_u32(struct state_reader *node, const char *name, uint32_t *value, struct error *err)
{
    return state_get_cells(node, name, value, 1, err);
}

int state_get_u64(struct state_reader *node, const char *name, uint64_t *value, struct error *err)
{
    uint32_t cells[2] = {0};
    int ret = state_get_cells(node, name, cells, 2, err);

    if (!ret)
        *value = (uint64_t)cells[0] << 32 | cells[1];
    return ret;
}

int state_get_bytes(struct state_reader *node, const char *name, size_t max, const uint8_t **data,
                    size_t *bytes, struct error *err)
{
    int found;

    *data = need(node, name, &found, err);
    if (!*data)
        return -EPROTO;
    if ((size_t)found > max)
        return error_set(err, EPROTO, "saved state: /%s/%s has %d bytes, more than %zu", node->name,
                         name, found, max);
    *bytes = (size_t)found;
    return 0;
}

static size_t field_bytes(const struct state_field *field)
{
    return (size_t)field->count * (field->width == 8 ? 2 : 1) * sizeof(uint32_t);
}

/* Cells -> one member; false where a value does not fit into it. */
static bool store_field(const struct state_field *field, const uint8_t *data, void *structure)
{
    unsigned each = field->width == 8 ? 2 : 1;

    for (unsigned k = 0; k < field->count; k++) {
        const uint8_t *at = data + (size_t)k * each * sizeof(uint32_t);
        uint64_t value = state_cell(at);

        if (each == 2)
            value = value << 32 | state_cell(at + sizeof(uint32_t));
        if (field->width < 8 && value >> (8 * field->width) != 0)
            return false;
        memcpy((uint8_t *)structure + field->offset + (size_t)k * field->width, &value,
               field->width);
    }
    return true;
}

int state_get_packed(struct state_reader *node, const char *name, const struct state_field *fields,
                     size_t nfields, void *structure, struct error *err)
{
    size_t wanted = 0;
    int bytes;
    const uint8_t *data = need(node, name, &bytes, err);

    if (!data)
        return -EPROTO;
    for (size_t i = 0; i < nfields; i++)
        wanted += field_bytes(&fields[i]);
    if ((size_t)bytes != wanted)
        return wrong_size(node, name, bytes, wanted, err);
    for (size_t i = 0; i < nfields; i++) {
        if (!store_field(&fields[i], data, structure))
            return error_set(err, EPROTO, "saved state: /%s/%s: the value of %s is too large",
                             node->name, name, fields[i].name);
        data += field_bytes(&fields[i]);
    }
    return 0;
}

int state_get_fields(struct state_reader *node, const struct state_field *fields, size_t nfields,
                     void *structure, struct error *err)
{
    for (size_t i = 0; i < nfields; i++) {
        int ret = state_get_packed(node, fields[i].name, &fields[i], 1, structure, err);

        if (ret)
            return ret;
    }
    return 0;
}
