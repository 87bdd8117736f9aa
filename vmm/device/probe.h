/* SPDX-License-Identifier: MIT
 *
 * The device that exists to be checked (guest/abi.h, "Probe device"): a lost or doubled access
 * shows in its counters, and a page that it stored shows whether the VMM's own writes migrate. */
#ifndef VMM_DEVICE_PROBE_H
#define VMM_DEVICE_PROBE_H

#include <pthread.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/bus.h"
#include "vmm/memory.h"
#include "vmm/state.h"

struct probe;

struct probe_window {
    struct probe *probe;
    uint32_t count;
};

struct probe {
    pthread_mutex_t lock; /* everything below */
    struct memory *memory;
    struct probe_window port, mmio;
    uint64_t stamps;
    uint64_t refused; /* stamps of frames outside RAM */
};

/* Registers both windows. The struct is the caller's and outlives the bus; memory is borrowed. */
int probe_init(struct probe *probe, struct bus *bus, struct memory *memory, struct error *err);
void probe_destroy(struct probe *probe);

/* Counters as node /probe. */
void probe_save(struct probe *probe, struct state_writer *writer);
int probe_load(struct probe *probe, struct state_reader *root, struct error *err);

#endif
