/* SPDX-License-Identifier: MIT
 *
 * The 16550 by polling. Registers: National PC16550D data sheet, table II. Input comes by
 * interrupt (kernel/interrupt.c). */
#include "guest/lib/console.h"

#include "guest/lib/boot_info.h"
#include "guest/lib/io.h"

#define UART_DATA      0
#define UART_IER       1
#define UART_IIR       2 /* read */
#define UART_FCR       2 /* write */
#define UART_LCR       3
#define UART_MCR       4
#define UART_LSR       5
#define UART_LSR_DATA  0x01
#define UART_LSR_THRE  0x20
#define UART_FIFO_DEEP 16

static struct {
    uint32_t locked;
    unsigned burst; /* bytes that fit when the transmitter is empty */
} console;

void console_init(void)
{
    uint16_t port = boot_info.serial_port;

    io_out8(port + UART_IER, 0);
    io_out8(port + UART_LCR, 0x80); /* divisor latch */
    io_out8(port + UART_DATA, 1);   /* 115200 baud */
    io_out8(port + UART_IER, 0);
    io_out8(port + UART_LCR, 0x03); /* 8 bits, no parity, one stop bit */
    /* Switching the FIFO on would drop input that came before: then do without. */
    if (!(io_in8(port + UART_LSR) & UART_LSR_DATA))
        io_out8(port + UART_FCR, 0x01);
    io_out8(port + UART_MCR, 0x0b); /* DTR, RTS, OUT2: the interrupt line is driven */
    console.burst = (io_in8(port + UART_IIR) & 0xc0) == 0xc0 ? UART_FIFO_DEEP : 1;
}

static void console_lock(void)
{
    while (__atomic_exchange_n(&console.locked, 1, __ATOMIC_ACQUIRE))
        cpu_pause();
}

static void console_unlock(void)
{
    __atomic_store_n(&console.locked, 0, __ATOMIC_RELEASE);
}

void console_break_lock(void)
{
    console_unlock();
}

void console_write(const char *text, size_t bytes)
{
    uint16_t port = boot_info.serial_port;

    console_lock();
    while (bytes) {
        while (!(io_in8(port + UART_LSR) & UART_LSR_THRE))
            cpu_pause();
        for (unsigned i = 0; i < console.burst && bytes; i++, bytes--)
            io_out8(port + UART_DATA, (uint8_t)*text++);
    }
    console_unlock();
}

void machine_exit(uint32_t code)
{
    io_out32(boot_info.exit_port, code);
    /* Nobody listens there: stay quiet. Ring 3 may not halt. */
    for (;;)
        cpu_pause();
}
