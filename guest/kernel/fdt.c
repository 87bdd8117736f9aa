/* SPDX-License-Identifier: MIT
 *
 * The device tree walker. It keeps no tree: one pass, a callback, and the path on the way. */
#include "guest/kernel/fdt.h"

#include "guest/lib/string.h"

#define FDT_MAGIC        0xd00dfeed
#define FDT_HEADER_BYTES 40
#define FDT_BEGIN_NODE   1
#define FDT_END_NODE     2
#define FDT_PROP         3
#define FDT_NOP          4
#define FDT_END          9
#define FDT_PATH_BYTES   128

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool fdt_open(struct fdt *fdt, const void *blob, size_t bytes)
{
    const uint8_t *b = blob;
    uint32_t total, structure, strings;

    if (bytes < FDT_HEADER_BYTES || big32(b) != FDT_MAGIC)
        return false;
    total = big32(b + 4);
    structure = big32(b + 8);
    strings = big32(b + 12);
    fdt->strings_bytes = big32(b + 32);
    fdt->structure_bytes = big32(b + 36);
    if (total > bytes || total > FDT_MAX_BYTES || structure > total || strings > total ||
        fdt->structure_bytes > total - structure || fdt->strings_bytes > total - strings)
        return false;
    fdt->structure = b + structure;
    fdt->strings = b + strings;
    return true;
}

/* Length of a NUL-terminated string that must end within `limit`; -1 where it does not. */
static int64_t bounded_length(const uint8_t *text, uint32_t limit)
{
    for (uint32_t i = 0; i < limit; i++) {
        if (!text[i])
            return i;
    }
    return -1;
}

struct walk {
    const struct fdt *fdt;
    uint32_t at;
    char path[FDT_PATH_BYTES];
    size_t path_used;
    unsigned depth;
};

static bool walk_left(const struct walk *walk, uint32_t bytes)
{
    return bytes <= walk->fdt->structure_bytes - walk->at;
}

static bool walk_skip(struct walk *walk, uint32_t bytes)
{
    uint32_t padded = (bytes + 3) & ~3u;

    if (padded < bytes || !walk_left(walk, padded))
        return false;
    walk->at += padded;
    return true;
}

static bool walk_begin(struct walk *walk)
{
    const uint8_t *name = walk->fdt->structure + walk->at;
    int64_t length = bounded_length(name, walk->fdt->structure_bytes - walk->at);

    if (length < 0 || walk->path_used + (uint64_t)length + 2 > sizeof(walk->path))
        return false;
    /* The root's name is empty and adds nothing. */
    if (walk->depth++) {
        walk->path[walk->path_used++] = '/';
        memcpy(walk->path + walk->path_used, name, (size_t)length);
        walk->path_used += (size_t)length;
    }
    walk->path[walk->path_used] = '\0';
    return walk_skip(walk, (uint32_t)length + 1);
}

static bool walk_end(struct walk *walk)
{
    if (!walk->depth)
        return false;
    walk->depth--;
    while (walk->path_used && walk->path[walk->path_used - 1] != '/')
        walk->path_used--;
    if (walk->path_used)
        walk->path_used--;
    walk->path[walk->path_used] = '\0';
    return true;
}

static bool walk_property(struct walk *walk, struct fdt_property *property)
{
    const uint8_t *header = walk->fdt->structure + walk->at;
    uint32_t name;

    if (!walk->depth || !walk_skip(walk, 8))
        return false;
    property->bytes = big32(header);
    name = big32(header + 4);
    property->value = header + 8;
    if (name >= walk->fdt->strings_bytes ||
        bounded_length(walk->fdt->strings + name, walk->fdt->strings_bytes - name) < 0)
        return false;
    property->name = (const char *)walk->fdt->strings + name;
    return walk_skip(walk, property->bytes);
}

bool fdt_walk(const struct fdt *fdt, fdt_visit *visit, void *opaque)
{
    struct walk walk = {.fdt = fdt};

    for (;;) {
        const uint8_t *token = fdt->structure + walk.at;
        struct fdt_property property;

        if (!walk_skip(&walk, 4))
            return false;
        switch (big32(token)) {
        case FDT_BEGIN_NODE:
            if (!walk_begin(&walk))
                return false;
            visit(opaque, walk.path, NULL);
            break;
        case FDT_END_NODE:
            if (!walk_end(&walk))
                return false;
            break;
        case FDT_PROP:
            if (!walk_property(&walk, &property))
                return false;
            visit(opaque, walk.path, &property);
            break;
        case FDT_NOP:
            break;
        case FDT_END:
            return walk.depth == 0;
        default:
            return false;
        }
    }
}

uint32_t fdt_cell(const struct fdt_property *property, unsigned n)
{
    return (n + 1) * 4 <= property->bytes ? big32(property->value + 4 * n) : 0;
}

uint64_t fdt_number(const struct fdt_property *property)
{
    if (property->bytes < 8)
        return fdt_cell(property, 0);
    return (uint64_t)fdt_cell(property, 0) << 32 | fdt_cell(property, 1);
}

bool fdt_lists(const struct fdt_property *property, const char *text)
{
    size_t length = strlen(text) + 1;
    uint32_t at = 0;

    while (at < property->bytes) {
        int64_t one = bounded_length(property->value + at, property->bytes - at);

        if (one < 0)
            return false;
        if ((uint64_t)one + 1 == length && !memcmp(property->value + at, text, length))
            return true;
        at += (uint32_t)one + 1;
    }
    return false;
}
