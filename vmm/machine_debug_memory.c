/* SPDX-License-Identifier: MIT
 *
 * Guest memory by linear addresses, and the breakpoints in it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/machine_internal.h"

/* A part of a range that lies in one page. */
struct piece {
    gpa_t gpa;
    size_t bytes;
};

static int find_piece(const struct machine *machine, unsigned cpu, uint64_t address, size_t left,
                      struct piece *piece, struct error *err)
{
    size_t rest = MEMORY_PAGE_BYTES - address % MEMORY_PAGE_BYTES;
    int ret = debug_translate(machine->vcpus.vcpu[cpu].fd, address, &piece->gpa, err);

    piece->bytes = left < rest ? left : rest;
    if (!ret && !memory_at(&machine->memory, piece->gpa, piece->bytes))
        return error_set(err, EFAULT, "what is mapped at 0x%" PRIx64 " is no RAM", address);
    return ret;
}

static int check_range(struct machine *machine, unsigned cpu, uint64_t address, size_t bytes,
                       struct error *err)
{
    int ret = machine_debug_stands(machine, cpu, err);
    struct piece piece;

    if (!ret && !size_range_within(address, bytes, UINT64_MAX))
        ret = error_set(err, EFAULT, "%zu bytes at 0x%" PRIx64 " wrap around", bytes, address);
    for (size_t done = 0; !ret && done < bytes; done += piece.bytes)
        ret = find_piece(machine, cpu, address + done, bytes - done, &piece, err);
    return ret;
}

const struct machine_debug_point *machine_debug_point_at(const struct machine_debug *debug,
                                                         gpa_t gpa)
{
    for (unsigned i = 0; i < debug->npoints; i++) {
        if (debug->point[i].gpa == gpa)
            return &debug->point[i];
    }
    return NULL;
}

/* Gives a reader what the guest's memory would hold without us. A byte that is no int3 any more was
 * written by the guest. */
static void hide_points(const struct machine_debug *debug, const struct piece *piece,
                        uint8_t *buffer)
{
    for (unsigned i = 0; i < debug->npoints; i++) {
        const struct machine_debug_point *point = &debug->point[i];

        if (point->gpa >= piece->gpa && point->gpa - piece->gpa < piece->bytes &&
            buffer[point->gpa - piece->gpa] == DEBUG_INT3)
            buffer[point->gpa - piece->gpa] = point->original;
    }
}

/* Breakpoints stay where something is written over them, and keep what they will give back. */
static void keep_points(struct machine_debug *debug, const struct piece *piece, uint8_t *buffer)
{
    for (unsigned i = 0; i < debug->npoints; i++) {
        struct machine_debug_point *point = &debug->point[i];

        if (point->gpa >= piece->gpa && point->gpa - piece->gpa < piece->bytes)
            point->original = buffer[point->gpa - piece->gpa];
    }
    for (unsigned i = 0; i < debug->npoints; i++) {
        const struct machine_debug_point *point = &debug->point[i];

        if (point->gpa >= piece->gpa && point->gpa - piece->gpa < piece->bytes)
            buffer[point->gpa - piece->gpa] = DEBUG_INT3;
    }
}

int machine_debug_read(struct machine *machine, unsigned cpu, uint64_t address, void *buffer,
                       size_t bytes, struct error *err)
{
    uint8_t *to = buffer;
    struct piece piece;
    int ret = check_range(machine, cpu, address, bytes, err);

    for (size_t done = 0; !ret && done < bytes; done += piece.bytes) {
        ret = find_piece(machine, cpu, address + done, bytes - done, &piece, err);
        if (!ret)
            ret = memory_read(&machine->memory, piece.gpa, to + done, piece.bytes);
        if (!ret)
            hide_points(&machine->debug, &piece, to + done);
    }
    return ret;
}

int machine_debug_write(struct machine *machine, unsigned cpu, uint64_t address, const void *buffer,
                        size_t bytes, struct error *err)
{
    const uint8_t *from = buffer;
    struct piece piece;
    int ret = check_range(machine, cpu, address, bytes, err);

    for (size_t done = 0; !ret && done < bytes; done += piece.bytes) {
        uint8_t page[MEMORY_PAGE_BYTES];

        ret = find_piece(machine, cpu, address + done, bytes - done, &piece, err);
        if (ret)
            break;
        memcpy(page, from + done, piece.bytes);
        keep_points(&machine->debug, &piece, page);
        ret = memory_write(&machine->memory, piece.gpa, page, piece.bytes);
    }
    return ret;
}

static int insert_software(struct machine *machine, unsigned cpu, uint64_t address, uint64_t bytes,
                           struct error *err)
{
    struct machine_debug *debug = &machine->debug;
    const uint8_t int3 = DEBUG_INT3;
    struct machine_debug_point point = {.address = address};
    struct piece piece;
    int ret;

    if (bytes != 1)
        return error_set(err, EINVAL, "a breakpoint has length 1");
    if (!debug->support.software)
        return error_set(err, ENOTSUP,
                         "this host's KVM does not stop a guest at an int3: it would "
                         "be an exception inside the guest");
    for (unsigned i = 0; i < debug->npoints; i++) {
        if (debug->point[i].address == address)
            return 0;
    }
    if (debug->npoints == MACHINE_DEBUG_MAX_POINTS)
        return error_set(err, ENOSPC, "there are %u breakpoints already", debug->npoints);
    ret = machine_debug_read(machine, cpu, address, &point.original, 1, err);
    if (!ret)
        ret = find_piece(machine, cpu, address, 1, &piece, err);
    if (!ret)
        ret = memory_write(&machine->memory, piece.gpa, &int3, 1);
    if (ret)
        return ret;
    point.gpa = piece.gpa;
    debug->point[debug->npoints++] = point;
    return 0;
}

static int insert_hardware(struct machine *machine, enum debug_point kind, uint64_t address,
                           uint64_t bytes, struct error *err)
{
    const struct debug_hardware wanted = {
        .used = true, .kind = kind, .address = address, .bytes = bytes};
    struct debug_hardware *room = NULL;
    int ret = debug_check_hardware(&wanted, err);

    if (ret)
        return ret;
    if (!machine->debug.support.hardware)
        return error_set(err, ENOTSUP, "this host's KVM does not heed debug registers");
    for (unsigned i = 0; i < DEBUG_NHARDWARE; i++) {
        struct debug_hardware *point = &machine->debug.hardware[i];

        if (!point->used)
            room = room ? room : point;
        else if (point->kind == kind && point->address == address && point->bytes == bytes)
            return 0;
    }
    if (!room)
        return error_set(err, ENOSPC, "a CPU has %d debug registers", DEBUG_NHARDWARE);
    *room = wanted;
    return 0;
}

int machine_debug_insert(struct machine *machine, unsigned cpu, enum debug_point kind,
                         uint64_t address, uint64_t bytes, struct error *err)
{
    int ret = machine_debug_stands(machine, cpu, err);

    if (ret)
        return ret;
    return kind == DEBUG_POINT_SOFTWARE ? insert_software(machine, cpu, address, bytes, err)
                                        : insert_hardware(machine, kind, address, bytes, err);
}

/* Puts back what was there, unless the guest has put something else there itself, or the byte has
 * another breakpoint under another address. */
static void remove_software(struct machine *machine, unsigned which)
{
    struct machine_debug *debug = &machine->debug;
    const struct machine_debug_point point = debug->point[which];
    uint8_t now;

    debug->point[which] = debug->point[--debug->npoints];
    if (!machine_debug_point_at(debug, point.gpa) &&
        memory_read(&machine->memory, point.gpa, &now, 1) == 0 && now == DEBUG_INT3)
        (void)memory_write(&machine->memory, point.gpa, &point.original, 1);
}

int machine_debug_remove(struct machine *machine, enum debug_point kind, uint64_t address,
                         uint64_t bytes, struct error *err)
{
    struct machine_debug *debug = &machine->debug;
    int ret = machine_debug_stands(machine, 0, err);

    if (ret)
        return ret;
    for (unsigned i = 0; kind == DEBUG_POINT_SOFTWARE && i < debug->npoints; i++) {
        if (debug->point[i].address == address) {
            remove_software(machine, i);
            return 0;
        }
    }
    for (unsigned i = 0; i < DEBUG_NHARDWARE; i++) {
        struct debug_hardware *point = &debug->hardware[i];

        if (point->used && point->kind == kind && point->address == address &&
            point->bytes == bytes) {
            point->used = false;
            return 0;
        }
    }
    return error_set(err, ENOENT, "there is no such breakpoint at 0x%" PRIx64, address);
}

void machine_debug_remove_all(struct machine *machine)
{
    while (machine->debug.npoints)
        remove_software(machine, machine->debug.npoints - 1);
    memset(machine->debug.hardware, 0, sizeof(machine->debug.hardware));
}
