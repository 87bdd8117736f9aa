/* SPDX-License-Identifier: MIT
 *
 * Port and MMIO windows: who answers an access of the guest. Windows are registered before the
 * first vCPU runs and never change after that, so that lookups need no lock. */
#ifndef VMM_BUS_H
#define VMM_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define BUS_MAX_WINDOWS 64

enum bus_space {
    BUS_PORT, /* 16-bit port numbers */
    BUS_MMIO, /* guest physical addresses */
};

#define BUS_NSPACES 2

/* One access, `bytes` (1…8) wide. offset is relative to the window's start; the access begins in
 * the window but may reach past its end: the device decides. A read arrives with data all ones: a
 * device that does not answer leaves it so. Runs in the vCPU's thread, several vCPUs at once. */
typedef void (*bus_access_fn)(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes,
                              bool is_write);

struct bus_window {
    const char *name; /* borrowed; for messages */
    uint64_t start;
    uint64_t bytes;
    bus_access_fn access;
    void *opaque;
};

/* Owned by the caller. Zeroed by bus_init(). */
struct bus {
    struct bus_window window[BUS_NSPACES][BUS_MAX_WINDOWS]; /* sorted by start */
    unsigned nwindows[BUS_NSPACES];
    uint64_t unmapped; /* atomic */
};

void bus_init(struct bus *bus);

/* Copies the window. -EEXIST where it overlaps another, with both names; -EINVAL where it is empty
 * or leaves the space; -ENOSPC. */
int bus_add(struct bus *bus, enum bus_space space, const struct bus_window *window,
            struct error *err);

/* Dispatches one access. What no window answers is counted; it reads as all ones. */
void bus_access(struct bus *bus, enum bus_space space, uint64_t address, uint8_t *data,
                unsigned bytes, bool is_write);

/* The name of the window that answers there; NULL: none does. Any thread. */
const char *bus_window_name(const struct bus *bus, enum bus_space space, uint64_t address);

/* Accesses that no window answered. Any thread. */
uint64_t bus_unmapped_accesses(const struct bus *bus);

#endif
