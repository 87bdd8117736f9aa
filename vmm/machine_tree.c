/* SPDX-License-Identifier: MIT
 *
 * Description -> device tree. The same description always makes the same bytes. */
#include "vmm/machine_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <libfdt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi.h"
#include "vmm/device/exit_port.h"
#include "vmm/machine_tree_internal.h"
#include "vmm/memory.h"

#define MEMORY_MIN_BYTES (2ull << 20)
#define MEMORY_MAX_BYTES (4ull << 40)

/* Ports that KVM's irqchip and PIT or this machine's devices answer already. */
static const struct {
    uint16_t first, last;
    const char *owner;
} taken_ports[] = {
    {0x20, 0x21, "interrupt controller"},
    {0x40, 0x43, "timer"},
    {0x60, 0x64, "keyboard controller"},
    {0x70, 0x71, "real-time clock"},
    {0xa0, 0xa1, "interrupt controller"},
    {GUEST_SERIAL_PORT, GUEST_SERIAL_PORT + TREE_SERIAL_BYTES - 1, "serial port"},
    {0x4d0, 0x4d1, "interrupt controller"},
    {PROBE_PORT, PROBE_PORT + PROBE_PORT_BYTES - 1, "probe device"},
    {EXIT_PORT_SLEEP, EXIT_PORT_SLEEP + 1, "ACPI sleep registers"},
    {0xcf8, 0xcff, "reset port"},
};

uint64_t machine_tree_low_bytes(uint64_t memory_bytes)
{
    return memory_bytes < MEMORY_GAP_START ? memory_bytes : MEMORY_GAP_START;
}

static int check_exit_port(uint16_t port, int code, const char *where, struct error *err)
{
    unsigned last = port + TREE_EXIT_BYTES - 1u;

    if (!port || last > UINT16_MAX)
        return error_set(err, code, "%s/exit: reg: port 0x%x is not within 1…0xfffc", where, port);
    for (size_t i = 0; i < sizeof(taken_ports) / sizeof(taken_ports[0]); i++) {
        if (port <= taken_ports[i].last && last >= taken_ports[i].first)
            return error_set(err, code, "%s/exit: reg: port 0x%x belongs to the %s", where, port,
                             taken_ports[i].owner);
    }
    return 0;
}

static int check_cpuid(const struct machine_description *description, int code, const char *where,
                       struct error *err)
{
    if (description->ncpuid > MACHINE_CPUID_MAX)
        return error_set(err, code, "%s/cpus: " TREE_CPUID ": %u entries, at most %d are possible",
                         where, description->ncpuid, MACHINE_CPUID_MAX);
    for (unsigned i = 0; i < description->ncpuid; i++) {
        const struct machine_cpuid_entry *a = &description->cpuid[i];

        /* Bit 0, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, is the only flag in use. */
        if (a->flags & ~1u)
            return error_set(err, code, "%s/cpus: " TREE_CPUID ": leaf 0x%x has unknown flags 0x%x",
                             where, a->function, a->flags);
        for (unsigned j = 0; j < i; j++) {
            const struct machine_cpuid_entry *b = &description->cpuid[j];
            if (a->function == b->function && a->index == b->index)
                return error_set(err, code, "%s/cpus: " TREE_CPUID ": leaf 0x%x index 0x%x twice",
                                 where, a->function, a->index);
        }
    }
    return 0;
}

int machine_tree_check(const struct machine_description *description, int code, const char *where,
                       struct error *err)
{
    uint64_t bytes = description->memory_bytes;
    int result;

    if (bytes < MEMORY_MIN_BYTES || bytes > MEMORY_MAX_BYTES || bytes % MEMORY_PAGE_BYTES)
        return error_set(err, code,
                         "%s/memory@0: reg: %" PRIu64
                         " bytes of RAM are not whole pages from 2 MiB to 4 TiB",
                         where, bytes);
    if (!description->ncpus || description->ncpus > MACHINE_MAX_CPUS)
        return error_set(err, code, "%s/cpus: %u vCPUs, 1 to %d are possible", where,
                         description->ncpus, MACHINE_MAX_CPUS);
    /* KVM_SET_TSC_KHZ takes 32 bits. */
    if (description->tsc_khz > UINT32_MAX)
        return error_set(err, code, "%s/cpus: " TREE_TSC_KHZ ": %" PRIu64 " is out of range", where,
                         description->tsc_khz);
    if (!memchr(description->bootargs, '\0', sizeof(description->bootargs)))
        return error_set(err, code, "%s/chosen: bootargs: longer than %d bytes", where,
                         MACHINE_BOOTARGS_MAX);
    result = check_exit_port(description->exit_port, code, where, err);
    return result ? result : check_cpuid(description, code, where, err);
}

/* The writer remembers its first error, so that the tree below reads like the tree. */
struct writer {
    void *fdt;
    int error; /* FDT_ERR_*, negative */
};

static void begin(struct writer *w, const char *name)
{
    if (!w->error)
        w->error = fdt_begin_node(w->fdt, name);
}

static void begin_at(struct writer *w, const char *name, unsigned unit)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%s@%x", name, unit);
    begin(w, text);
}

static void end(struct writer *w)
{
    if (!w->error)
        w->error = fdt_end_node(w->fdt);
}

static void put_text(struct writer *w, const char *name, const char *text)
{
    if (!w->error)
        w->error = fdt_property(w->fdt, name, text, (int)strlen(text) + 1);
}

static void put_cells(struct writer *w, const char *name, const uint32_t *cells, unsigned ncells)
{
    void *to = NULL;

    if (!w->error)
        w->error = fdt_property_placeholder(w->fdt, name, (int)(ncells * sizeof(*cells)), &to);
    for (unsigned i = 0; !w->error && i < ncells; i++)
        fdt32_st((uint8_t *)to + i * sizeof(*cells), cells[i]);
}

static void put_cell(struct writer *w, const char *name, uint32_t cell)
{
    put_cells(w, name, &cell, 1);
}

static void put_memory(struct writer *w, uint64_t bytes)
{
    uint64_t low = machine_tree_low_bytes(bytes);
    uint64_t high = bytes - low;
    const uint32_t cells[] = {
        0, 0, (uint32_t)(low >> 32),  (uint32_t)low,
        1, 0, (uint32_t)(high >> 32), (uint32_t)high, /* 4 GiB */
    };

    begin_at(w, "memory", 0);
    put_text(w, "device_type", "memory");
    put_cells(w, "reg", cells, high ? 8 : 4);
    end(w);
}

static void put_cpus(struct writer *w, const struct machine_description *description)
{
    const uint32_t khz[] = {(uint32_t)(description->tsc_khz >> 32), (uint32_t)description->tsc_khz};
    uint32_t cells[MACHINE_CPUID_MAX * TREE_CPUID_CELLS];
    uint32_t *cell = cells;

    for (unsigned i = 0; i < description->ncpuid; i++) {
        const struct machine_cpuid_entry *e = &description->cpuid[i];
        const uint32_t values[] = {e->function, e->index, e->flags, e->eax, e->ebx, e->ecx, e->edx};

        memcpy(cell, values, sizeof(values));
        cell += TREE_CPUID_CELLS;
    }
    begin(w, "cpus");
    put_cell(w, "#address-cells", 1);
    put_cell(w, "#size-cells", 0);
    put_cells(w, TREE_TSC_KHZ, khz, 2);
    put_cells(w, TREE_CPUID, cells, description->ncpuid * TREE_CPUID_CELLS);
    for (unsigned i = 0; i < description->ncpus; i++) {
        begin_at(w, "cpu", i);
        put_text(w, "device_type", "cpu");
        put_cell(w, "reg", i);
        end(w);
    }
    end(w);
}

static void put_framebuffer(struct writer *w)
{
    const uint32_t reg[] = {0, FRAMEBUFFER_GPA, 0, FRAMEBUFFER_BYTES};

    begin_at(w, "framebuffer", FRAMEBUFFER_GPA);
    put_text(w, "compatible", TREE_COMPATIBLE_FB);
    put_cells(w, "reg", reg, 4);
    end(w);
}

static void put_devices(struct writer *w, uint16_t exit_port)
{
    const uint32_t serial[] = {GUEST_SERIAL_PORT, TREE_SERIAL_BYTES};
    const uint32_t exit_reg[] = {exit_port, TREE_EXIT_BYTES};
    const uint32_t probe[] = {PROBE_PORT, PROBE_PORT_BYTES};
    const uint32_t mmio[] = {0, PROBE_MMIO, 0, PROBE_MMIO_BYTES};

    begin_at(w, "serial", GUEST_SERIAL_PORT);
    put_text(w, "compatible", TREE_COMPATIBLE_SERIAL);
    put_cells(w, "reg", serial, 2);
    put_cell(w, "interrupts", GUEST_SERIAL_IRQ);
    put_cell(w, "clock-frequency", TREE_SERIAL_CLOCK_HZ);
    end(w);
    begin_at(w, "exit", exit_port);
    put_text(w, "compatible", TREE_COMPATIBLE_EXIT);
    put_cells(w, "reg", exit_reg, 2);
    end(w);
    begin_at(w, "probe", PROBE_PORT);
    put_text(w, "compatible", TREE_COMPATIBLE_PROBE);
    put_cells(w, "reg", probe, 2);
    put_cells(w, TREE_MMIO, mmio, 4);
    end(w);
}

int machine_tree_build(const struct machine_description *description, void **fdt, size_t *fdt_bytes,
                       struct error *err)
{
    struct writer w = {0};
    int result = machine_tree_check(description, EINVAL, "", err);

    if (result)
        return result;
    /* Zeroed: libfdt leaves the padding after a property as it was. */
    w.fdt = calloc(1, MACHINE_TREE_MAX_BYTES);
    if (!w.fdt)
        return error_set(err, ENOMEM, "no memory for the device tree");
    w.error = fdt_create(w.fdt, MACHINE_TREE_MAX_BYTES);
    if (!w.error)
        w.error = fdt_finish_reservemap(w.fdt);
    begin(&w, "");
    put_text(&w, "compatible", TREE_COMPATIBLE_MACHINE);
    put_cell(&w, "#address-cells", 2);
    put_cell(&w, "#size-cells", 2);
    begin(&w, "chosen");
    put_text(&w, "bootargs", description->bootargs);
    put_text(&w, "stdout-path", TREE_STDOUT_PATH);
    end(&w);
    put_memory(&w, description->memory_bytes);
    put_cpus(&w, description);
    put_devices(&w, description->exit_port);
    if (description->framebuffer)
        put_framebuffer(&w);
    end(&w);
    if (!w.error)
        w.error = fdt_finish(w.fdt);
    if (w.error) {
        free(w.fdt);
        return error_set(err, EINVAL, "device tree: %s", fdt_strerror(w.error));
    }
    *fdt = w.fdt;
    *fdt_bytes = fdt_totalsize(w.fdt);
    return 0;
}
