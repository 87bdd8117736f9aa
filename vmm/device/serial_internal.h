/* SPDX-License-Identifier: MIT
 *
 * Register numbers and bits of the 16550A (PC16550D data sheet, table II), and what its register
 * side and its host side share. All functions are called with the device's lock held. */
#ifndef VMM_DEVICE_SERIAL_INTERNAL_H
#define VMM_DEVICE_SERIAL_INTERNAL_H

#include "vmm/device/serial.h"

#define SERIAL_RBR 0 /* read: receiver; write: transmitter; with DLAB: divisor, low */
#define SERIAL_IER 1 /* with DLAB: divisor, high */
#define SERIAL_IIR 2 /* write: FIFO control */
#define SERIAL_LCR 3
#define SERIAL_MCR 4
#define SERIAL_LSR 5
#define SERIAL_MSR 6
#define SERIAL_SCR 7

#define IER_RECEIVE  0x01
#define IER_TRANSMIT 0x02
#define IER_LINE     0x04
#define IER_MODEM    0x08
#define IER_WRITABLE 0x0f

#define IIR_NONE     0x01
#define IIR_MODEM    0x00
#define IIR_TRANSMIT 0x02
#define IIR_RECEIVE  0x04
#define IIR_LINE     0x06
#define IIR_TIMEOUT  0x0c
#define IIR_FIFO     0xc0

#define FCR_ENABLE        0x01
#define FCR_CLEAR_RX      0x02
#define FCR_TRIGGER       0xc0
#define FCR_TRIGGER_SHIFT 6

#define LCR_DLAB 0x80

#define MCR_DTR      0x01
#define MCR_RTS      0x02
#define MCR_OUT1     0x04
#define MCR_OUT2     0x08
#define MCR_LOOPBACK 0x10
#define MCR_WRITABLE 0x1f

#define LSR_DATA    0x01
#define LSR_OVERRUN 0x02
#define LSR_ERRORS  0x1e
#define LSR_THRE    0x20
#define LSR_TEMT    0x40

#define MSR_CTS         0x10
#define MSR_DSR         0x20
#define MSR_RI          0x40
#define MSR_DCD         0x80
#define MSR_DELTA_SHIFT 4

/* Follows the registers: raises or lowers the interrupt line. */
void serial_update_irq(struct serial *serial);

static inline bool serial_loopback(const struct serial *serial)
{
    return serial->mcr & MCR_LOOPBACK;
}

static inline bool serial_fifo_enabled(const struct serial *serial)
{
    return serial->fcr & FCR_ENABLE;
}

static inline unsigned serial_rx_capacity(const struct serial *serial)
{
    return serial_fifo_enabled(serial) ? SERIAL_FIFO_BYTES : 1;
}

/* A driver that saw "transmitter empty" writes a whole FIFO: there must be room for it. */
static inline bool serial_tx_ready(const struct serial *serial)
{
    return serial_loopback(serial) || SERIAL_RING_BYTES - serial->ring_count >= SERIAL_FIFO_BYTES;
}

static inline void serial_rx_push(struct serial *serial, uint8_t byte)
{
    if (serial->rx_count == serial_rx_capacity(serial)) {
        serial->line_errors |= LSR_OVERRUN;
        return;
    }
    serial->rx[(serial->rx_head + serial->rx_count) % SERIAL_FIFO_BYTES] = byte;
    serial->rx_count++;
}

#endif
