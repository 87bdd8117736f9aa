/* SPDX-License-Identifier: MIT
 *
 * The UART's other side: output taken, input given, state saved and loaded. */
#include <errno.h>
#include <string.h>

#include "vmm/device/serial_internal.h"

void serial_detach(struct serial *serial)
{
    pthread_mutex_lock(&serial->lock);
    serial->irq.set = NULL;
    pthread_mutex_unlock(&serial->lock);
}

size_t serial_take(struct serial *serial, uint8_t *buffer, size_t bytes)
{
    size_t taken, first;
    bool was_ready;

    pthread_mutex_lock(&serial->lock);
    was_ready = serial_tx_ready(serial);
    taken = bytes < serial->ring_count ? bytes : serial->ring_count;
    first = SERIAL_RING_BYTES - serial->ring_head;
    if (first > taken)
        first = taken;
    memcpy(buffer, serial->ring + serial->ring_head, first);
    memcpy(buffer + first, serial->ring, taken - first);
    serial->ring_head = (serial->ring_head + taken) % SERIAL_RING_BYTES;
    serial->ring_count -= taken;
    if (!was_ready && serial_tx_ready(serial)) {
        serial->thre_pending = true;
        serial_update_irq(serial);
    }
    pthread_mutex_unlock(&serial->lock);
    return taken;
}

/* In loopback the receiver is cut off from the line; what comes waits outside. */
static size_t rx_free(const struct serial *serial)
{
    return serial_loopback(serial) ? 0 : serial_rx_capacity(serial) - serial->rx_count;
}

size_t serial_room(struct serial *serial)
{
    size_t room;

    pthread_mutex_lock(&serial->lock);
    room = rx_free(serial);
    serial->rx_refused |= room == 0;
    pthread_mutex_unlock(&serial->lock);
    return room;
}

size_t serial_give(struct serial *serial, const uint8_t *buffer, size_t bytes)
{
    size_t given = 0;

    pthread_mutex_lock(&serial->lock);
    while (given < bytes && rx_free(serial))
        serial_rx_push(serial, buffer[given++]);
    serial->rx_refused = given < bytes;
    serial_update_irq(serial);
    pthread_mutex_unlock(&serial->lock);
    return given;
}

#define SERIAL_NODE "serial"

static const struct state_field fields[] = {
    STATE_FIELD(struct serial, ier, "ier"),
    STATE_FIELD(struct serial, fcr, "fcr"),
    STATE_FIELD(struct serial, lcr, "lcr"),
    STATE_FIELD(struct serial, mcr, "mcr"),
    STATE_FIELD(struct serial, scratch, "scratch"),
    STATE_FIELD(struct serial, divisor_low, "divisor-low"),
    STATE_FIELD(struct serial, divisor_high, "divisor-high"),
    STATE_FIELD(struct serial, line_errors, "line-errors"),
    STATE_FIELD(struct serial, modem_delta, "modem-delta"),
};

void serial_save(struct serial *serial, struct state_writer *writer)
{
    uint8_t rx[SERIAL_FIFO_BYTES];

    pthread_mutex_lock(&serial->lock);
    for (unsigned i = 0; i < serial->rx_count; i++)
        rx[i] = serial->rx[(serial->rx_head + i) % SERIAL_FIFO_BYTES];
    state_begin_node(writer, SERIAL_NODE);
    state_put_fields(writer, fields, STATE_COUNT(fields), serial);
    /* A guest that waits for a full ring finds an empty one where it goes: it must be told. */
    state_put_u32(writer, "transmit-pending",
                  serial->thre_pending || !serial_tx_ready(serial) ? 1 : 0);
    state_put_bytes(writer, "receive-fifo", rx, serial->rx_count);
    state_end_node(writer);
    pthread_mutex_unlock(&serial->lock);
}

static int check_fields(const struct serial *loaded, uint32_t pending, size_t rx_bytes,
                        struct error *err)
{
    if (loaded->ier & ~IER_WRITABLE || loaded->mcr & ~MCR_WRITABLE ||
        loaded->fcr & ~(FCR_ENABLE | FCR_TRIGGER) || loaded->line_errors & ~LSR_ERRORS ||
        loaded->modem_delta & 0xf0 || pending > 1)
        return error_set(err, EPROTO, "saved state: /" SERIAL_NODE " has impossible bits set");
    if (rx_bytes > serial_rx_capacity(loaded))
        return error_set(err, EPROTO, "saved state: /" SERIAL_NODE "/receive-fifo is too long");
    return 0;
}

int serial_load(struct serial *serial, struct state_reader *root, struct error *err)
{
    struct state_reader node;
    struct serial loaded = {0};
    const uint8_t *rx;
    size_t rx_bytes;
    uint32_t pending;
    int ret;

    ret = state_open_node(root, SERIAL_NODE, &node, err);
    if (!ret)
        ret = state_get_fields(&node, fields, STATE_COUNT(fields), &loaded, err);
    if (!ret)
        ret = state_get_u32(&node, "transmit-pending", &pending, err);
    if (!ret)
        ret = state_get_bytes(&node, "receive-fifo", SERIAL_FIFO_BYTES, &rx, &rx_bytes, err);
    if (!ret)
        ret = state_close(&node, err);
    if (!ret)
        ret = check_fields(&loaded, pending, rx_bytes, err);
    if (ret)
        return ret;
    pthread_mutex_lock(&serial->lock);
    for (size_t i = 0; i < STATE_COUNT(fields); i++)
        ((uint8_t *)serial)[fields[i].offset] = ((const uint8_t *)&loaded)[fields[i].offset];
    serial->thre_pending = pending;
    serial->rx_head = 0;
    serial->rx_count = (unsigned)rx_bytes;
    memcpy(serial->rx, rx, rx_bytes);
    serial_update_irq(serial);
    pthread_mutex_unlock(&serial->lock);
    return 0;
}
