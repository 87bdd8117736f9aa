/* SPDX-License-Identifier: MIT
 *
 * Console output and the end of the guest, usable in both rings. */
#ifndef GUEST_LIB_CONSOLE_H
#define GUEST_LIB_CONSOLE_H

#include <stddef.h>
#include <stdint.h>

/* Sets the UART at boot_info.serial_port up: FIFO on, interrupts off. */
void console_init(void);
/* Waits for room, never drops. A call's bytes are not mixed with another CPU's. */
void console_write(const char *text, size_t bytes);
/* For exception dumps: whoever holds the console may never give it back. */
void console_break_lock(void);

/* %s %c %d %u %x %lu %lx, a width, and a 0 before it. A line of at most PRINT_MAX bytes, written
 * at once; the rest is cut. */
#define PRINT_MAX 640
void print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the guest with an exit code of abi.h. */
void machine_exit(uint32_t code) __attribute__((noreturn));

#endif
