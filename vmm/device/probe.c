/* SPDX-License-Identifier: MIT
 *
 * Counters that every access changes, and stores into guest memory that KVM does not log. */
#include "vmm/device/probe.h"

#include <endian.h>
#include <string.h>

#include "guest/abi.h"

#define PROBE_NODE "probe"

static void stamp(struct probe *probe, uint32_t frame)
{
    gpa_t gpa = (gpa_t)frame * MEMORY_PAGE_BYTES;
    uint64_t words[2];

    probe->stamps++;
    words[0] = htole64(probe->stamps);
    words[1] = htole64(~probe->stamps);
    if (memory_write(probe->memory, gpa, words, sizeof(words)))
        probe->refused++;
}

static uint32_t read_register(struct probe_window *window, uint64_t offset)
{
    switch (offset) {
    case PROBE_REG_COUNT:
        return window->count++;
    case PROBE_REG_PEEK:
        return window->count;
    case PROBE_REG_STAMPED:
        return (uint32_t)window->probe->stamps;
    default:
        return UINT32_MAX;
    }
}

static void probe_access(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes,
                         bool is_write)
{
    struct probe_window *window = opaque;
    uint32_t value;

    if (bytes != sizeof(value))
        return; /* all accesses are 32 bits wide */
    pthread_mutex_lock(&window->probe->lock);
    if (!is_write) {
        value = htole32(read_register(window, offset));
        memcpy(data, &value, sizeof(value));
    } else if (offset == PROBE_REG_COUNT) {
        window->count++;
    } else if (offset == PROBE_REG_STAMP) {
        memcpy(&value, data, sizeof(value));
        stamp(window->probe, le32toh(value));
    }
    pthread_mutex_unlock(&window->probe->lock);
}

int probe_init(struct probe *probe, struct bus *bus, struct memory *memory, struct error *err)
{
    struct bus_window window = {.name = "probe", .access = probe_access};
    int ret;

    memset(probe, 0, sizeof(*probe));
    probe->memory = memory;
    probe->port.probe = probe;
    probe->mmio.probe = probe;
    window.start = PROBE_PORT;
    window.bytes = PROBE_PORT_BYTES;
    window.opaque = &probe->port;
    ret = bus_add(bus, BUS_PORT, &window, err);
    if (ret)
        return ret;
    window.start = PROBE_MMIO;
    window.bytes = PROBE_MMIO_BYTES;
    window.opaque = &probe->mmio;
    ret = bus_add(bus, BUS_MMIO, &window, err);
    if (ret)
        return ret;
    pthread_mutex_init(&probe->lock, NULL);
    return 0;
}

void probe_destroy(struct probe *probe)
{
    pthread_mutex_destroy(&probe->lock);
}

static const struct state_field fields[] = {
    STATE_FIELD(struct probe, port.count, "port-count"),
    STATE_FIELD(struct probe, mmio.count, "mmio-count"),
    STATE_FIELD(struct probe, stamps, "stamps"),
    STATE_FIELD(struct probe, refused, "refused"),
};

void probe_save(struct probe *probe, struct state_writer *writer)
{
    pthread_mutex_lock(&probe->lock);
    state_begin_node(writer, PROBE_NODE);
    state_put_fields(writer, fields, STATE_COUNT(fields), probe);
    state_end_node(writer);
    pthread_mutex_unlock(&probe->lock);
}

int probe_load(struct probe *probe, struct state_reader *root, struct error *err)
{
    struct state_reader node;
    int ret = state_open_node(root, PROBE_NODE, &node, err);

    if (ret)
        return ret;
    pthread_mutex_lock(&probe->lock);
    ret = state_get_fields(&node, fields, STATE_COUNT(fields), probe, err);
    pthread_mutex_unlock(&probe->lock);
    if (!ret)
        ret = state_close(&node, err);
    return ret;
}
