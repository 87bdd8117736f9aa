/* SPDX-License-Identifier: MIT
 *
 * An OUT of 1, 2 or 4 bytes to the exit port is an exit code. Resets: 0xfe to the keyboard
 * controller's command port pulses the reset line (IBM AT); bit 2 of 0xcf9 set from 0 to 1 resets
 * (Intel ICH, "Reset Control Register"). Power off: SLP_EN with the type of S5 to the sleep control
 * register (ACPI 6.4, table 4.20). */
#include "vmm/device/exit_port.h"

#include <errno.h>
#include <string.h>

#define KEYBOARD_COMMAND_PORT 0x64
#define KEYBOARD_PULSE_RESET  0xfe
#define RESET_CONTROL_CPU     0x04
#define SLEEP_ENABLE          0x20
#define SLEEP_TYPE_SHIFT      2
#define SLEEP_TYPE_MASK       0x7

static void exit_access(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes, bool is_write)
{
    struct exit_port *port = opaque;
    uint32_t code = 0;

    if (!is_write || offset != 0 || bytes > sizeof(code))
        return;
    memcpy(&code, data, bytes);
    port->events.exit(port->events.opaque, code);
}

static void keyboard_access(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes,
                            bool is_write)
{
    struct exit_port *port = opaque;

    (void)offset;
    if (is_write && data[0] == KEYBOARD_PULSE_RESET)
        port->events.reset(port->events.opaque, "the keyboard controller");
    else if (!is_write)
        memset(data, 0, bytes); /* status: nothing to read, ready for a command */
}

static void cf9_access(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes, bool is_write)
{
    struct exit_port *port = opaque;
    uint8_t old;

    (void)offset;
    (void)bytes;
    if (!is_write) {
        data[0] = __atomic_load_n(&port->cf9, __ATOMIC_RELAXED);
        return;
    }
    old =
        __atomic_exchange_n(&port->cf9, (uint8_t)(data[0] & ~RESET_CONTROL_CPU), __ATOMIC_RELAXED);
    if (data[0] & RESET_CONTROL_CPU && !(old & RESET_CONTROL_CPU))
        port->events.reset(port->events.opaque, "port 0xcf9");
}

/* No register keeps anything: there is no waking up from S5. */
static void sleep_access(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes,
                         bool is_write)
{
    struct exit_port *port = opaque;

    if (!is_write)
        memset(data, 0, bytes);
    else if (offset == 0 && data[0] & SLEEP_ENABLE &&
             (data[0] >> SLEEP_TYPE_SHIFT & SLEEP_TYPE_MASK) == EXIT_PORT_SLEEP_S5)
        port->events.poweroff(port->events.opaque);
}

int exit_port_init(struct exit_port *port, struct bus *bus, uint16_t address,
                   const struct exit_port_events *events, struct error *err)
{
    const struct bus_window windows[] = {
        {.name = "exit", .start = address, .bytes = EXIT_PORT_BYTES, .access = exit_access},
        {.name = "keyboard", .start = KEYBOARD_COMMAND_PORT, .bytes = 1, .access = keyboard_access},
        {.name = "reset", .start = EXIT_PORT_RESET, .bytes = 1, .access = cf9_access},
        {.name = "sleep", .start = EXIT_PORT_SLEEP, .bytes = 2, .access = sleep_access},
    };

    memset(port, 0, sizeof(*port));
    port->events = *events;
    for (unsigned i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        struct bus_window window = windows[i];
        int ret;

        window.opaque = port;
        ret = bus_add(bus, BUS_PORT, &window, err);
        if (ret)
            return ret;
    }
    return 0;
}

void exit_port_save(const struct exit_port *port, struct state_writer *writer)
{
    state_begin_node(writer, "reset");
    state_put_u32(writer, "cf9", __atomic_load_n(&port->cf9, __ATOMIC_RELAXED));
    state_end_node(writer);
}

int exit_port_load(struct exit_port *port, struct state_reader *root, struct error *err)
{
    struct state_reader node;
    uint32_t cf9 = 0;
    int ret = state_open_node(root, "reset", &node, err);

    if (!ret)
        ret = state_get_u32(&node, "cf9", &cf9, err);
    if (!ret && (cf9 > UINT8_MAX || cf9 & RESET_CONTROL_CPU))
        ret = error_set(err, EPROTO, "saved state: /reset/cf9 has impossible bits set");
    if (!ret)
        ret = state_close(&node, err);
    if (!ret)
        __atomic_store_n(&port->cf9, (uint8_t)cf9, __ATOMIC_RELAXED);
    return ret;
}
