/* SPDX-License-Identifier: MIT
 *
 * A flattened device tree as JSON, for people: nodes are objects, properties what they look like.
 */
#ifndef TOOLS_FDT_JSON_H
#define TOOLS_FDT_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "vmm/base/error.h"

/* The whole tree, or NULL with a line where it is none. Strings are strings, up to eight cells are
 * numbers (one alone) or an array of them, all else is "N bytes". */
json_t *fdt_json(const void *fdt, size_t fdt_bytes, struct error *err);

#endif
