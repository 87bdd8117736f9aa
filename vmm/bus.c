/* SPDX-License-Identifier: MIT
 *
 * A sorted array of windows for each space, looked up by bisection. */
#include "vmm/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/base/size.h"

static uint64_t space_limit(enum bus_space space)
{
    return space == BUS_PORT ? 0x10000 : UINT64_MAX;
}

/* Index of the first window that starts after the address. */
static unsigned upper_bound(const struct bus *bus, enum bus_space space, uint64_t address)
{
    unsigned low = 0, high = bus->nwindows[space];

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (bus->window[space][middle].start > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void bus_init(struct bus *bus)
{
    memset(bus, 0, sizeof(*bus));
}

static int overlap_error(const struct bus_window *window, const struct bus_window *other,
                         struct error *err)
{
    return error_set(
        err, EEXIST,
        "window %s at 0x%" PRIx64 "+0x%" PRIx64 " overlaps %s at 0x%" PRIx64 "+0x%" PRIx64,
        window->name, window->start, window->bytes, other->name, other->start, other->bytes);
}

int bus_add(struct bus *bus, enum bus_space space, const struct bus_window *window,
            struct error *err)
{
    struct bus_window *sorted = bus->window[space];
    unsigned count = bus->nwindows[space];
    unsigned at = upper_bound(bus, space, window->start);

    if (window->bytes == 0 || !size_range_within(window->start, window->bytes, space_limit(space)))
        return error_set(err, EINVAL, "window %s at 0x%" PRIx64 "+0x%" PRIx64 " leaves its space",
                         window->name, window->start, window->bytes);
    if (at > 0 && sorted[at - 1].start + sorted[at - 1].bytes > window->start)
        return overlap_error(window, &sorted[at - 1], err);
    if (at < count && window->start + window->bytes > sorted[at].start)
        return overlap_error(window, &sorted[at], err);
    if (count == BUS_MAX_WINDOWS)
        return error_set(err, ENOSPC, "no room for window %s", window->name);
    memmove(&sorted[at + 1], &sorted[at], (count - at) * sizeof(sorted[0]));
    sorted[at] = *window;
    bus->nwindows[space]++;
    return 0;
}

/* The window that answers there, or NULL. */
static const struct bus_window *find(const struct bus *bus, enum bus_space space, uint64_t address)
{
    unsigned after = upper_bound(bus, space, address);
    const struct bus_window *window = after ? &bus->window[space][after - 1] : NULL;

    return window && address - window->start < window->bytes ? window : NULL;
}

void bus_access(struct bus *bus, enum bus_space space, uint64_t address, uint8_t *data,
                unsigned bytes, bool is_write)
{
    const struct bus_window *window = find(bus, space, address);

    if (!is_write)
        memset(data, 0xff, bytes);
    if (window)
        window->access(window->opaque, address - window->start, data, bytes, is_write);
    else
        __atomic_fetch_add(&bus->unmapped, 1, __ATOMIC_RELAXED);
}

const char *bus_window_name(const struct bus *bus, enum bus_space space, uint64_t address)
{
    const struct bus_window *window = find(bus, space, address);

    return window ? window->name : NULL;
}

uint64_t bus_unmapped_accesses(const struct bus *bus)
{
    return __atomic_load_n(&bus->unmapped, __ATOMIC_RELAXED);
}
