/* SPDX-License-Identifier: MIT
 *
 * Bytes of ACPI tables under construction. Internal to acpi*.c. What does not fit is counted but
 * not stored, so that the caller need ask only once. */
#ifndef VMM_X86_ACPI_BUFFER_H
#define VMM_X86_ACPI_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct acpi_buffer {
    uint8_t *data;
    size_t bytes, capacity;
};

static inline void acpi_put(struct acpi_buffer *buffer, const void *data, size_t bytes)
{
    if (bytes <= buffer->capacity && buffer->bytes <= buffer->capacity - bytes)
        memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
}

/* Little-endian. */
static inline void acpi_put_number(struct acpi_buffer *buffer, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));

        acpi_put(buffer, &byte, 1);
    }
}

/* Names of four characters, and what stands for nothing in a table. */
static inline void acpi_put_text(struct acpi_buffer *buffer, const char *text)
{
    acpi_put(buffer, text, strlen(text));
}

/* The body of the DSDT: the serial port of guest/abi.h and the sleep state S5. */
void acpi_put_dsdt(struct acpi_buffer *buffer);

#endif
