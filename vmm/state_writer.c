/* SPDX-License-Identifier: MIT
 *
 * Saved state, writing side: libfdt's sequential writer. Names are not shared between properties:
 * looking for earlier ones costs more than the bytes are worth while the guest stands still. */
#include <endian.h>
#include <errno.h>
#include <libfdt.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/state.h"

#define MAX_FIELD_CELLS 64

static void check(struct state_writer *writer, int ret)
{
    if (ret < 0 && !writer->error)
        writer->error = ret;
}

int state_writer_begin(struct state_writer *writer, const char *compatible, struct error *err)
{
    writer->error = 0;
    writer->fdt = malloc(STATE_MAX_BYTES);
    if (!writer->fdt)
        return error_set(err, ENOMEM, "no memory for the saved state");
    check(writer,
          fdt_create_with_flags(writer->fdt, STATE_MAX_BYTES, FDT_CREATE_FLAG_NO_NAME_DEDUP));
    check(writer, fdt_finish_reservemap(writer->fdt));
    state_begin_node(writer, "");
    state_put_bytes(writer, "compatible", compatible, strlen(compatible) + 1);
    return 0;
}

void state_begin_node(struct state_writer *writer, const char *name)
{
    check(writer, fdt_begin_node(writer->fdt, name));
}

void state_end_node(struct state_writer *writer)
{
    check(writer, fdt_end_node(writer->fdt));
}

void state_put_bytes(struct state_writer *writer, const char *name, const void *data, size_t bytes)
{
    if (bytes > STATE_MAX_BYTES)
        check(writer, -FDT_ERR_NOSPACE);
    else
        check(writer, fdt_property(writer->fdt, name, data, (int)bytes));
}

void state_put_u32(struct state_writer *writer, const char *name, uint32_t value)
{
    check(writer, fdt_property_u32(writer->fdt, name, value));
}

void state_put_u64(struct state_writer *writer, const char *name, uint64_t value)
{
    check(writer, fdt_property_u64(writer->fdt, name, value));
}

void state_put_cells(struct state_writer *writer, const char *name, const uint32_t *cells,
                     size_t ncells)
{
    void *at = NULL;

    if (ncells > STATE_MAX_BYTES / sizeof(uint32_t)) {
        check(writer, -FDT_ERR_NOSPACE);
        return;
    }
    check(writer,
          fdt_property_placeholder(writer->fdt, name, (int)(ncells * sizeof(uint32_t)), &at));
    for (size_t i = 0; !writer->error && i < ncells; i++) {
        uint32_t cell = htobe32(cells[i]);

        memcpy((uint8_t *)at + i * sizeof(cell), &cell, sizeof(cell));
    }
}

/* Appends one little-endian integer of `width` bytes as cells; returns how many. */
static size_t integer_to_cells(const uint8_t *at, unsigned width, uint32_t *cells)
{
    uint64_t value = 0;

    memcpy(&value, at, width);
    if (width < sizeof(value)) {
        cells[0] = (uint32_t)value;
        return 1;
    }
    cells[0] = (uint32_t)(value >> 32);
    cells[1] = (uint32_t)value;
    return 2;
}

/* As much of the fields as fits; tables are constants, so that a test sees what does not. */
static size_t fields_to_cells(const struct state_field *fields, size_t nfields,
                              const void *structure, uint32_t *cells)
{
    size_t ncells = 0;

    for (size_t i = 0; i < nfields; i++) {
        for (unsigned k = 0; k < fields[i].count && ncells + 2 <= MAX_FIELD_CELLS; k++) {
            const uint8_t *at =
                (const uint8_t *)structure + fields[i].offset + (size_t)k * fields[i].width;

            ncells += integer_to_cells(at, fields[i].width, &cells[ncells]);
        }
    }
    return ncells;
}

void state_put_fields(struct state_writer *writer, const struct state_field *fields, size_t nfields,
                      const void *structure)
{
    for (size_t i = 0; i < nfields; i++)
        state_put_packed(writer, fields[i].name, &fields[i], 1, structure);
}

void state_put_packed(struct state_writer *writer, const char *name,
                      const struct state_field *fields, size_t nfields, const void *structure)
{
    uint32_t cells[MAX_FIELD_CELLS];
    size_t ncells = fields_to_cells(fields, nfields, structure, cells);

    state_put_cells(writer, name, cells, ncells);
}

int state_writer_finish(struct state_writer *writer, void **fdt, size_t *fdt_bytes,
                        struct error *err)
{
    state_end_node(writer);
    check(writer, writer->error ? 0 : fdt_finish(writer->fdt));
    if (writer->error) {
        int error = writer->error;

        state_writer_abort(writer);
        return error_set(err, ENOSPC, "saved state: %s", fdt_strerror(error));
    }
    *fdt = writer->fdt;
    *fdt_bytes = fdt_totalsize(writer->fdt);
    writer->fdt = NULL;
    return 0;
}

void state_writer_abort(struct state_writer *writer)
{
    free(writer->fdt);
    writer->fdt = NULL;
}
