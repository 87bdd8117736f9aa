/* SPDX-License-Identifier: MIT */
#include "tools/fdt_json.h"

#include <ctype.h>
#include <errno.h>
#include <libfdt.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_DEPTH 16
#define MAX_CELLS 8

static bool is_text(const char *value, int length)
{
    if (length < 2 || value[length - 1] != '\0' || value[0] == '\0')
        return false;
    for (int i = 0; i < length - 1; i++) {
        if (!isprint((unsigned char)value[i]))
            return false;
    }
    return true;
}

static json_t *value_json(const void *value, int length)
{
    const fdt32_t *cells = value;
    json_t *array;

    if (length == 0)
        return json_true();
    if (is_text(value, length))
        return json_string(value);
    if (length % 4 || length / 4 > MAX_CELLS)
        return json_sprintf("%d bytes", length);
    if (length == 4)
        return json_integer(fdt32_ld(cells));
    array = json_array();
    for (int i = 0; i < length / 4; i++)
        (void)json_array_append_new(array, json_integer(fdt32_ld(cells + i)));
    return array;
}

static json_t *node_json(const void *fdt, int node)
{
    json_t *object = json_object();
    int property;

    fdt_for_each_property_offset(property, fdt, node)
    {
        const char *name;
        int length;
        const void *value = fdt_getprop_by_offset(fdt, property, &name, &length);

        if (value)
            (void)json_object_set_new(object, name, value_json(value, length));
    }
    return object;
}

json_t *fdt_json(const void *fdt, size_t fdt_bytes, struct error *err)
{
    json_t *open[MAX_DEPTH];
    json_t *root;
    int depth = 0;

    if (fdt_check_full(fdt, fdt_bytes)) {
        (void)error_set(err, EPROTO, "it is no flattened device tree");
        return NULL;
    }
    root = open[0] = node_json(fdt, 0);
    for (int node = fdt_next_node(fdt, 0, &depth); node >= 0 && depth > 0;
         node = fdt_next_node(fdt, node, &depth)) {
        if (depth >= MAX_DEPTH) {
            (void)error_set(err, EPROTO, "it is deeper than %d nodes", MAX_DEPTH);
            json_decref(root);
            return NULL;
        }
        open[depth] = node_json(fdt, node);
        (void)json_object_set_new(open[depth - 1], fdt_get_name(fdt, node, NULL), open[depth]);
    }
    return root;
}
