/* SPDX-License-Identifier: MIT
 *
 * What a machine tree must hold: every node and property of this version, with its fixed value or
 * the function that takes it over. */
#include <errno.h>
#include <string.h>

#include "guest/abi.h"
#include "vmm/machine_tree_internal.h"
#include "vmm/memory.h"

int machine_tree_bad(const struct tree_parser *p, const char *property, const char *what)
{
    int result = error_set(p->err, EPROTO, "device tree: %s: %s%s%s", p->path, property,
                           *property ? ": " : "", what);

    /* Names are the peer's, and this line goes to a terminal. */
    for (char *c = p->err ? p->err->text : NULL; c && *c; c++) {
        if (*c < ' ' || *c > '~')
            *c = '?';
    }
    return result;
}

uint32_t machine_tree_cell(const uint8_t *data, unsigned index)
{
    data += (size_t)index * sizeof(uint32_t);
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

static uint64_t pair_at(const uint8_t *data, unsigned index)
{
    return (uint64_t)machine_tree_cell(data, index) << 32 | machine_tree_cell(data, index + 1);
}

static int take_bootargs(struct tree_parser *p, const char *name, const uint8_t *data,
                         unsigned bytes)
{
    if (!bytes || memchr(data, '\0', bytes) != data + bytes - 1)
        return machine_tree_bad(p, name, "not one string");
    if (bytes > sizeof(p->out->bootargs))
        return machine_tree_bad(p, name, "too long");
    memcpy(p->out->bootargs, data, bytes);
    return 0;
}

/* One size says it all: where RAM lies follows from how much there is. */
static int take_memory(struct tree_parser *p, const char *name, const uint8_t *data, unsigned bytes)
{
    uint64_t low;

    if (bytes != 16 && bytes != 32)
        return machine_tree_bad(p, name, "not one or two ranges");
    low = pair_at(data, 2);
    p->unit = pair_at(data, 0);
    p->out->memory_bytes = low;
    if (bytes == 32) {
        uint64_t high = pair_at(data, 6);

        if (low != MEMORY_GAP_START || pair_at(data, 4) != MEMORY_GAP_END || !high ||
            high > UINT64_MAX - low)
            return machine_tree_bad(p, name, "RAM above 4 GiB without RAM up to the 32-bit gap");
        p->out->memory_bytes = low + high;
    } else if (low > MEMORY_GAP_START) {
        return machine_tree_bad(p, name, "RAM in the 32-bit gap");
    }
    return p->unit ? machine_tree_bad(p, name, "RAM does not start at 0") : 0;
}

static int take_tsc_khz(struct tree_parser *p, const char *name, const uint8_t *data,
                        unsigned bytes)
{
    if (bytes != 8)
        return machine_tree_bad(p, name, "not a 64-bit number");
    p->out->tsc_khz = pair_at(data, 0);
    return 0;
}

static int take_cpuid(struct tree_parser *p, const char *name, const uint8_t *data, unsigned bytes)
{
    const unsigned entry_bytes = TREE_CPUID_CELLS * sizeof(uint32_t);

    if (bytes % entry_bytes || bytes / entry_bytes > MACHINE_CPUID_MAX)
        return machine_tree_bad(p, name, "not up to 256 entries of seven cells");
    p->out->ncpuid = bytes / entry_bytes;
    for (unsigned i = 0; i < p->out->ncpuid; i++, data += entry_bytes) {
        p->out->cpuid[i] = (struct machine_cpuid_entry){
            .function = machine_tree_cell(data, 0),
            .index = machine_tree_cell(data, 1),
            .flags = machine_tree_cell(data, 2),
            .eax = machine_tree_cell(data, 3),
            .ebx = machine_tree_cell(data, 4),
            .ecx = machine_tree_cell(data, 5),
            .edx = machine_tree_cell(data, 6),
        };
    }
    return 0;
}

static int take_cpu(struct tree_parser *p, const char *name, const uint8_t *data, unsigned bytes)
{
    uint32_t cpu;

    if (bytes != 4)
        return machine_tree_bad(p, name, "not one cell");
    cpu = machine_tree_cell(data, 0);
    if (cpu >= MACHINE_MAX_CPUS)
        return machine_tree_bad(p, name, "out of range");
    if (p->cpus_seen & 1u << cpu)
        return machine_tree_bad(p, name, "the same vCPU twice");
    p->cpus_seen |= 1u << cpu;
    p->unit = cpu;
    return 0;
}

static int take_exit_port(struct tree_parser *p, const char *name, const uint8_t *data,
                          unsigned bytes)
{
    if (bytes != 8 || machine_tree_cell(data, 1) != TREE_EXIT_BYTES)
        return machine_tree_bad(p, name, "not <port 4>");
    if (machine_tree_cell(data, 0) > UINT16_MAX)
        return machine_tree_bad(p, name, "not a port");
    p->out->exit_port = (uint16_t)machine_tree_cell(data, 0);
    p->unit = p->out->exit_port;
    return 0;
}

static int take_framebuffer(struct tree_parser *p, const char *name, const uint8_t *data,
                            unsigned bytes)
{
    if (bytes != 16 || pair_at(data, 0) != FRAMEBUFFER_GPA || pair_at(data, 2) != FRAMEBUFFER_BYTES)
        return machine_tree_bad(p, name, "not the range of this version");
    p->out->framebuffer = true;
    p->unit = FRAMEBUFFER_GPA;
    return 0;
}

#define TEXT(property, value)               \
    {                                       \
        .name = (property), .text = (value) \
    }
#define CELLS(property, n, ...)                                     \
    {                                                               \
        .name = (property), .ncells = (n), .cells = { __VA_ARGS__ } \
    }
#define TAKE(property, function)               \
    {                                          \
        .name = (property), .take = (function) \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const struct tree_property_rule chosen_properties[] = {
    TAKE("bootargs", take_bootargs), TEXT("stdout-path", TREE_STDOUT_PATH), END};

static const struct tree_property_rule memory_properties[] = {TEXT("device_type", "memory"),
                                                              TAKE("reg", take_memory), END};

static const struct tree_property_rule cpu_properties[] = {TEXT("device_type", "cpu"),
                                                           TAKE("reg", take_cpu), END};

static const struct tree_property_rule cpus_properties[] = {
    CELLS("#address-cells", 1, 1), CELLS("#size-cells", 1, 0), TAKE(TREE_TSC_KHZ, take_tsc_khz),
    TAKE(TREE_CPUID, take_cpuid), END};

static const struct tree_property_rule serial_properties[] = {
    TEXT("compatible", TREE_COMPATIBLE_SERIAL),
    CELLS("reg", 2, GUEST_SERIAL_PORT, TREE_SERIAL_BYTES), CELLS("interrupts", 1, GUEST_SERIAL_IRQ),
    CELLS("clock-frequency", 1, TREE_SERIAL_CLOCK_HZ), END};

static const struct tree_property_rule exit_properties[] = {
    TEXT("compatible", TREE_COMPATIBLE_EXIT), TAKE("reg", take_exit_port), END};

static const struct tree_property_rule probe_properties[] = {
    TEXT("compatible", TREE_COMPATIBLE_PROBE), CELLS("reg", 2, PROBE_PORT, PROBE_PORT_BYTES),
    CELLS(TREE_MMIO, 4, 0, PROBE_MMIO, 0, PROBE_MMIO_BYTES), END};

static const struct tree_property_rule framebuffer_properties[] = {
    TEXT("compatible", TREE_COMPATIBLE_FB), TAKE("reg", take_framebuffer), END};

static const struct tree_property_rule root_properties[] = {
    TEXT("compatible", TREE_COMPATIBLE_MACHINE), CELLS("#address-cells", 1, 2),
    CELLS("#size-cells", 1, 2), END};

static const struct tree_node_rule no_nodes[] = {END};

static const struct tree_node_rule cpus_nodes[] = {
    {"cpu", true, TREE_NODE_MANY, cpu_properties, no_nodes},
    END,
};

static const struct tree_node_rule root_nodes[] = {
    {"chosen", false, TREE_NODE_ONCE, chosen_properties, no_nodes},
    {"memory", true, TREE_NODE_ONCE, memory_properties, no_nodes},
    {"cpus", false, TREE_NODE_ONCE, cpus_properties, cpus_nodes},
    {"serial", true, TREE_NODE_ONCE, serial_properties, no_nodes},
    {"exit", true, TREE_NODE_ONCE, exit_properties, no_nodes},
    {"probe", true, TREE_NODE_ONCE, probe_properties, no_nodes},
    {"framebuffer", true, TREE_NODE_OPTIONAL, framebuffer_properties, no_nodes},
    END,
};

const struct tree_node_rule machine_tree_root = {"", false, TREE_NODE_ONCE, root_properties,
                                                 root_nodes};
