/* SPDX-License-Identifier: MIT
 *
 * The ports by which a guest ends itself: the exit port (guest/abi.h), the two classic PC resets
 * (the keyboard controller's pulse, 0x64 <- 0xfe, and the reset control register 0xcf9), and ACPI's
 * sleep control register. */
#ifndef VMM_DEVICE_EXIT_PORT_H
#define VMM_DEVICE_EXIT_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/bus.h"
#include "vmm/state.h"

#define EXIT_PORT_BYTES 4

/* What ACPI tables tell: the reset control register and what resets through it, the sleep control
 * and status registers (one port each), and the type of S5, soft off. */
#define EXIT_PORT_RESET       0xcf9u
#define EXIT_PORT_RESET_VALUE 0x06u
#define EXIT_PORT_SLEEP       0x600u
#define EXIT_PORT_SLEEP_S5    5u

/* Called from the vCPU's thread; may be called again before that vCPU has stopped. */
struct exit_port_events {
    void (*exit)(void *opaque, uint32_t code);
    void (*reset)(void *opaque, const char *how);
    void (*poweroff)(void *opaque);
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
