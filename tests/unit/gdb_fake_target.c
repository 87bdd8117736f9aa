/* SPDX-License-Identifier: MIT */
#include "gdb_fake_target.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vmm/base/size.h"

static unsigned ncpus(void *opaque)
{
    (void)opaque;
    return FAKE_CPUS;
}

static int get_registers(void *opaque, unsigned cpu, struct debug_registers *registers)
{
    struct gdb_fake_target *fake = opaque;

    assert(cpu < FAKE_CPUS);
    *registers = fake->registers[cpu];
    return fake->fail;
}

static int set_registers(void *opaque, unsigned cpu, const struct debug_registers *registers)
{
    struct gdb_fake_target *fake = opaque;

    assert(cpu < FAKE_CPUS);
    if (!fake->fail)
        fake->registers[cpu] = *registers;
    return fake->fail;
}

static uint8_t *at(struct gdb_fake_target *fake, uint64_t address, size_t bytes)
{
    if (address < FAKE_BASE || !size_range_within(address - FAKE_BASE, bytes, FAKE_BYTES))
        return NULL;
    return fake->memory + (address - FAKE_BASE);
}

static int read_memory(void *opaque, unsigned cpu, uint64_t address, void *buffer, size_t bytes)
{
    struct gdb_fake_target *fake = opaque;
    const uint8_t *from = at(fake, address, bytes);

    assert(cpu < FAKE_CPUS);
    if (!from || fake->fail)
        return from ? fake->fail : -EFAULT;
    memcpy(buffer, from, bytes);
    return 0;
}

static int write_memory(void *opaque, unsigned cpu, uint64_t address, const void *buffer,
                        size_t bytes)
{
    struct gdb_fake_target *fake = opaque;
    uint8_t *to = at(fake, address, bytes);

    assert(cpu < FAKE_CPUS);
    if (!to || fake->fail)
        return to ? fake->fail : -EFAULT;
    memcpy(to, buffer, bytes);
    return 0;
}

static int insert(void *opaque, unsigned cpu, enum debug_point kind, uint64_t address,
                  uint64_t bytes)
{
    struct gdb_fake_target *fake = opaque;

    assert(cpu < FAKE_CPUS);
    fake->inserted++;
    fake->kind = kind;
    fake->address = address;
    fake->bytes = bytes;
    return fake->fail;
}

static int remove_point(void *opaque, enum debug_point kind, uint64_t address, uint64_t bytes)
{
    struct gdb_fake_target *fake = opaque;

    fake->removed++;
    fake->kind = kind;
    fake->address = address;
    fake->bytes = bytes;
    return fake->fail;
}

static int run(void *opaque, const enum machine_debug_run *each)
{
    struct gdb_fake_target *fake = opaque;

    if (fake->fail)
        return fake->fail;
    fake->runs++;
    memcpy(fake->each, each, sizeof(fake->each));
    return 0;
}

const struct gdb_target_ops gdb_fake_ops = {
    .ncpus = ncpus,
    .get_registers = get_registers,
    .set_registers = set_registers,
    .read = read_memory,
    .write = write_memory,
    .insert = insert,
    .remove = remove_point,
    .run = run,
};
