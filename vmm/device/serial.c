/* SPDX-License-Identifier: MIT
 *
 * The UART's registers: what the guest reads and writes. */
#include "vmm/device/serial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/device/serial_internal.h"

static unsigned rx_trigger(const struct serial *serial)
{
    static const uint8_t levels[] = {1, 4, 8, 14};

    return serial_fifo_enabled(serial) ? levels[serial->fcr >> FCR_TRIGGER_SHIFT] : 1;
}

/* The interrupt of the highest priority (data sheet, table IV). What lies in the FIFO below its
 * trigger level is a time-out at once, for the line stands still as far as the guest can tell. */
static uint8_t interrupt_id(const struct serial *serial)
{
    if (serial->ier & IER_LINE && serial->line_errors)
        return IIR_LINE;
    if (serial->ier & IER_RECEIVE && serial->rx_count >= rx_trigger(serial))
        return IIR_RECEIVE;
    if (serial->ier & IER_RECEIVE && serial->rx_count)
        return IIR_TIMEOUT;
    if (serial->ier & IER_TRANSMIT && serial->thre_pending)
        return IIR_TRANSMIT;
    if (serial->ier & IER_MODEM && serial->modem_delta)
        return IIR_MODEM;
    return IIR_NONE;
}

void serial_update_irq(struct serial *serial)
{
    bool level = interrupt_id(serial) != IIR_NONE;

    if (level == serial->irq_level)
        return;
    serial->irq_level = level;
    irq_line_set(&serial->irq, level);
}

/* MSR's high half: a null modem that is always ready, or our own outputs in loopback. */
static uint8_t modem_lines(const struct serial *serial)
{
    uint8_t mcr = serial->mcr;

    if (!serial_loopback(serial))
        return MSR_CTS | MSR_DSR | MSR_DCD;
    return (uint8_t)((mcr & MCR_RTS ? MSR_CTS : 0) | (mcr & MCR_DTR ? MSR_DSR : 0) |
                     (mcr & MCR_OUT1 ? MSR_RI : 0) | (mcr & MCR_OUT2 ? MSR_DCD : 0));
}

static void rx_room(struct serial *serial)
{
    if (!serial->rx_refused)
        return;
    serial->rx_refused = false;
    serial->events.notify(serial->events.opaque);
}

static uint8_t rx_pop(struct serial *serial)
{
    uint8_t byte = 0;

    if (serial->rx_count) {
        byte = serial->rx[serial->rx_head];
        serial->rx_head = (serial->rx_head + 1) % SERIAL_FIFO_BYTES;
        serial->rx_count--;
        rx_room(serial);
    }
    return byte;
}

static void tx_push(struct serial *serial, uint8_t byte)
{
    serial->thre_pending = false;
    serial_update_irq(serial);
    if (serial_loopback(serial)) {
        serial_rx_push(serial, byte);
    } else if (serial->ring_count < SERIAL_RING_BYTES) {
        serial->ring[(serial->ring_head + serial->ring_count) % SERIAL_RING_BYTES] = byte;
        if (serial->ring_count++ == 0)
            serial->events.notify(serial->events.opaque);
    }
    serial->thre_pending = serial_tx_ready(serial);
}

static void write_fcr(struct serial *serial, uint8_t value)
{
    bool toggled = (value ^ serial->fcr) & FCR_ENABLE;

    if (toggled || value & FCR_CLEAR_RX) {
        serial->rx_count = 0;
        rx_room(serial);
    }
    serial->fcr = value & FCR_ENABLE ? value & (FCR_ENABLE | FCR_TRIGGER) : 0;
}

static void write_mcr(struct serial *serial, uint8_t value)
{
    uint8_t before = modem_lines(serial), changed;
    bool was_ready = serial_tx_ready(serial);

    serial->mcr = value & MCR_WRITABLE;
    changed = before ^ modem_lines(serial);
    serial->modem_delta |= (uint8_t)((changed & (MSR_CTS | MSR_DSR | MSR_DCD)) >> MSR_DELTA_SHIFT);
    if (changed & before & MSR_RI) /* ring: its trailing edge only */
        serial->modem_delta |= MSR_RI >> MSR_DELTA_SHIFT;
    if (!was_ready && serial_tx_ready(serial))
        serial->thre_pending = true;
    if (!serial_loopback(serial))
        rx_room(serial);
}

static void write_ier(struct serial *serial, uint8_t value)
{
    bool enabled = value & ~serial->ier & IER_TRANSMIT;

    serial->ier = value & IER_WRITABLE;
    if (enabled && serial_tx_ready(serial))
        serial->thre_pending = true;
}

static uint8_t read_iir(struct serial *serial)
{
    uint8_t id = interrupt_id(serial);

    if (id == IIR_TRANSMIT)
        serial->thre_pending = false;
    return id | (serial_fifo_enabled(serial) ? IIR_FIFO : 0);
}

static uint8_t read_lsr(struct serial *serial)
{
    uint8_t value =
        (uint8_t)((serial->rx_count ? LSR_DATA : 0) |
                  (serial_tx_ready(serial) ? LSR_THRE | LSR_TEMT : 0) | serial->line_errors);

    serial->line_errors = 0;
    return value;
}

static uint8_t read_msr(struct serial *serial)
{
    uint8_t value = modem_lines(serial) | serial->modem_delta;

    serial->modem_delta = 0;
    return value;
}

static uint8_t read_register(struct serial *serial, uint64_t offset)
{
    bool divisor = serial->lcr & LCR_DLAB;

    switch (offset) {
    case SERIAL_RBR:
        return divisor ? serial->divisor_low : rx_pop(serial);
    case SERIAL_IER:
        return divisor ? serial->divisor_high : serial->ier;
    case SERIAL_IIR:
        return read_iir(serial);
    case SERIAL_LCR:
        return serial->lcr;
    case SERIAL_MCR:
        return serial->mcr;
    case SERIAL_LSR:
        return read_lsr(serial);
    case SERIAL_MSR:
        return read_msr(serial);
    case SERIAL_SCR:
        return serial->scratch;
    default:
        return 0xff;
    }
}

static void write_register(struct serial *serial, uint64_t offset, uint8_t value)
{
    bool divisor = serial->lcr & LCR_DLAB;

    switch (offset) {
    case SERIAL_RBR:
        if (divisor)
            serial->divisor_low = value;
        else
            tx_push(serial, value);
        break;
    case SERIAL_IER:
        if (divisor)
            serial->divisor_high = value;
        else
            write_ier(serial, value);
        break;
    case SERIAL_IIR:
        write_fcr(serial, value);
        break;
    case SERIAL_LCR:
        serial->lcr = value;
        break;
    case SERIAL_MCR:
        write_mcr(serial, value);
        break;
    case SERIAL_SCR:
        serial->scratch = value;
        break;
    default: /* LSR and MSR: writing is for factory tests */
        break;
    }
}

/* A wider access is several of one byte, as the ISA bus would split it. */
static void serial_access(void *opaque, uint64_t offset, uint8_t *data, unsigned bytes,
                          bool is_write)
{
    struct serial *serial = opaque;

    pthread_mutex_lock(&serial->lock);
    for (unsigned i = 0; i < bytes && offset + i < SERIAL_PORT_BYTES; i++) {
        if (is_write)
            write_register(serial, offset + i, data[i]);
        else
            data[i] = read_register(serial, offset + i);
        serial_update_irq(serial);
    }
    pthread_mutex_unlock(&serial->lock);
}

int serial_init(struct serial *serial, struct bus *bus, uint16_t port, const struct irq_line *irq,
                const struct serial_events *events, struct error *err)
{
    const struct bus_window window = {.name = "serial",
                                      .start = port,
                                      .bytes = SERIAL_PORT_BYTES,
                                      .access = serial_access,
                                      .opaque = serial};
    int ret;

    memset(serial, 0, sizeof(*serial));
    serial->irq = *irq;
    serial->events = *events;
    serial->divisor_low = 12; /* 9600 baud, as PC firmware leaves it */
    serial->ring = malloc(SERIAL_RING_BYTES);
    if (!serial->ring)
        return error_set(err, ENOMEM, "no memory for the console's output");
    ret = bus_add(bus, BUS_PORT, &window, err);
    if (ret) {
        free(serial->ring);
        return ret;
    }
    pthread_mutex_init(&serial->lock, NULL);
    return 0;
}

void serial_destroy(struct serial *serial)
{
    pthread_mutex_destroy(&serial->lock);
    free(serial->ring);
}
