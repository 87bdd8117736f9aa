/* SPDX-License-Identifier: MIT
 *
 * The ports by which a guest ends itself: the exit port (guest/abi.h), and the two classic PC
 * resets: the keyboard controller's pulse (0x64 <- 0xfe) and the reset control register 0xcf9. */
#ifndef VMM_DEVICE_EXIT_PORT_H
#define VMM_DEVICE_EXIT_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/bus.h"
#include "vmm/state.h"

#define EXIT_PORT_BYTES 4

/* Called from the vCPU's thread; may be called again before that vCPU has stopped. */
struct exit_port_events {
    void (*exit)(void *opaque, uint32_t code);
    void (*reset)(void *opaque, const char *how);
    void *opaque;
};

struct exit_port {
    struct exit_port_events events;
    uint8_t cf9; /* last value written, as chipsets let it be read back; atomic */
};

/* Registers all windows. The struct is the caller's and outlives the bus. */
int exit_port_init(struct exit_port *port, struct bus *bus, uint16_t address,
                   const struct exit_port_events *events, struct error *err);

/* Node /reset. */
void exit_port_save(const struct exit_port *port, struct state_writer *writer);
int exit_port_load(struct exit_port *port, struct state_reader *root, struct error *err);

#endif
