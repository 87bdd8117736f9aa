/* SPDX-License-Identifier: MIT */
#include "tools/gdb_machine.h"

#include <errno.h>

#include "vmm/base/log.h"

static struct machine *machine_of(void *opaque)
{
    return vm_host_machine(opaque);
}

static unsigned ncpus(void *opaque)
{
    return machine_ncpus(machine_of(opaque));
}

static int get_registers(void *opaque, unsigned cpu, struct debug_registers *registers)
{
    return machine_debug_get_registers(machine_of(opaque), cpu, registers, NULL);
}

/* The protocol has numbers only: what a user could not guess is said here. */
static int told(int rc, const struct error *err)
{
    if (rc)
        log_warning("for the debugger: %s", err->text);
    return rc;
}

static int set_registers(void *opaque, unsigned cpu, const struct debug_registers *registers)
{
    struct error err = {""};

    return told(machine_debug_set_registers(machine_of(opaque), cpu, registers, &err), &err);
}

static int read_memory(void *opaque, unsigned cpu, uint64_t address, void *buffer, size_t bytes)
{
    return machine_debug_read(machine_of(opaque), cpu, address, buffer, bytes, NULL);
}

static int write_memory(void *opaque, unsigned cpu, uint64_t address, const void *buffer,
                        size_t bytes)
{
    return machine_debug_write(machine_of(opaque), cpu, address, buffer, bytes, NULL);
}

static int insert(void *opaque, unsigned cpu, enum debug_point kind, uint64_t address,
                  uint64_t bytes)
{
    struct error err = {""};

    return told(machine_debug_insert(machine_of(opaque), cpu, kind, address, bytes, &err), &err);
}

static int remove_point(void *opaque, enum debug_point kind, uint64_t address, uint64_t bytes)
{
    return machine_debug_remove(machine_of(opaque), kind, address, bytes, NULL);
}

static int run(void *opaque, const enum machine_debug_run *each)
{
    struct error err = {""};

    return told(vm_host_debug_run(opaque, each, &err), &err);
}

const struct gdb_target_ops gdb_machine_ops = {
    .ncpus = ncpus,
    .get_registers = get_registers,
    .set_registers = set_registers,
    .read = read_memory,
    .write = write_memory,
    .insert = insert,
    .remove = remove_point,
    .run = run,
};
