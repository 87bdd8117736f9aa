/* SPDX-License-Identifier: MIT
 *
 * A 16550A UART. Registers as in National Semiconductor's PC16550D data sheet. Output goes to a
 * ring that another thread empties; while that is full the transmitter is busy and the guest waits:
 * nothing is dropped and no vCPU ever blocks. Time does not pass on the line: a byte is sent as
 * soon as it is written. */
#ifndef VMM_DEVICE_SERIAL_H
#define VMM_DEVICE_SERIAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/bus.h"
#include "vmm/device/irq_line.h"
#include "vmm/state.h"

#define SERIAL_PORT_BYTES 8
#define SERIAL_FIFO_BYTES 16
#define SERIAL_RING_BYTES (64u * 1024u)

/* Called with the device's lock held where output waits that did not before, or where there is room
 * for input again after serial_give() had to refuse some. */
struct serial_events {
    void (*notify)(void *opaque);
    void *opaque;
};

struct serial {
    pthread_mutex_t lock; /* everything below */
    struct irq_line irq;
    struct serial_events events;
    bool irq_level;
    uint8_t divisor_low, divisor_high;
    uint8_t ier, fcr, lcr, mcr, scratch;
    uint8_t line_errors; /* LSR's error bits, until read */
    uint8_t modem_delta; /* MSR's low half, until read */
    bool thre_pending;   /* a transmitter-empty interrupt that nobody acknowledged */
    uint8_t rx[SERIAL_FIFO_BYTES];
    unsigned rx_head, rx_count;
    bool rx_refused;
    uint8_t *ring;
    size_t ring_head, ring_count;
};

/* Registers the port window. The struct is the caller's and outlives the bus. -ENOMEM, or as
 * bus_add(); nothing to destroy then. */
int serial_init(struct serial *serial, struct bus *bus, uint16_t port, const struct irq_line *irq,
                const struct serial_events *events, struct error *err);
void serial_destroy(struct serial *serial);

/* From now on no interrupt is raised: the interrupt controller is going away. */
void serial_detach(struct serial *serial);

/* Moves up to `bytes` of waiting output into buffer; returns how many. Any thread. */
size_t serial_take(struct serial *serial, uint8_t *buffer, size_t bytes);

/* How many bytes the receiver has room for. Where that is none, events.notify() tells when there is
 * some. Any thread. */
size_t serial_room(struct serial *serial);

/* Puts input into the receiver as far as it has room; returns how many bytes. Any thread. */
size_t serial_give(struct serial *serial, const uint8_t *buffer, size_t bytes);

/* All registers and the receiver's contents as node /serial; output in the ring belongs to this
 * host and is not saved. Loading raises the interrupt line again where it was raised. */
void serial_save(struct serial *serial, struct state_writer *writer);
int serial_load(struct serial *serial, struct state_reader *root, struct error *err);

#endif
