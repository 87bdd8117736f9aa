/* SPDX-License-Identifier: MIT
 *
 * The DSDT in AML (ACPI 6.4, section 20.2 and 6.4), which is
 *
 *   Scope (\_SB) {
 *     Device (COM1) {
 *       Name (_HID, EisaId ("PNP0501"))
 *       Name (_UID, 0)
 *       Name (_CRS, ResourceTemplate () {
 *         IO (Decode16, 0x3F8, 0x3F8, 1, 8)
 *         Interrupt (ResourceConsumer, Edge, ActiveHigh, Exclusive) { 4 }
 *       })
 *     }
 *   }
 *   Name (\_S5, Package () { 5, 0, 0, 0 })
 */
#include "guest/abi.h"
#include "vmm/device/exit_port.h"
#include "vmm/x86/acpi.h"
#include "vmm/x86/acpi_buffer.h"

enum {
    AML_ZERO = 0x00,
    AML_NAME = 0x08,
    AML_BYTE = 0x0a,
    AML_DWORD = 0x0c,
    AML_SCOPE = 0x10,
    AML_BUFFER = 0x11,
    AML_PACKAGE = 0x12,
    AML_EXTENDED = 0x5b,
    AML_DEVICE = 0x82, /* behind AML_EXTENDED */
};

#define PNP0501 0x0105d041u /* EISA ID of a 16550A, compressed (section 19.3.4) */

/* Resource descriptors (section 6.4). */
#define RESOURCE_IO            0x47
#define RESOURCE_IO_DECODE16   0x01
#define RESOURCE_INTERRUPT     0x89
#define RESOURCE_CONSUMER_EDGE 0x03 /* active high, exclusive */
#define RESOURCE_END           0x79

#define SERIAL_PORT_BYTES 8
#define PART_BYTES        256
/* A package length of one byte counts itself and at most this much (section 20.2.4). */
#define SHORT_LENGTH 0x3fu

static void put_op(struct acpi_buffer *to, uint8_t op)
{
    acpi_put_number(to, op, 1);
}

/* The length in front of a body, then the body. */
static void put_block(struct acpi_buffer *to, const struct acpi_buffer *body)
{
    size_t length = body->bytes + 1;

    if (length > SHORT_LENGTH) {
        length++;
        acpi_put_number(to, 1u << 6 | (length & 0xf), 1);
        acpi_put_number(to, length >> 4, 1);
    } else {
        acpi_put_number(to, length, 1);
    }
    acpi_put(to, body->data, body->bytes);
}

static void put_name(struct acpi_buffer *to, const char *name)
{
    put_op(to, AML_NAME);
    acpi_put_text(to, name);
}

static void put_resources(struct acpi_buffer *to)
{
    uint8_t template_bytes[PART_BYTES], body_bytes[PART_BYTES];
    struct acpi_buffer template = {template_bytes, 0, sizeof(template_bytes)};
    struct acpi_buffer body = {body_bytes, 0, sizeof(body_bytes)};

    acpi_put_number(&template, RESOURCE_IO, 1);
    acpi_put_number(&template, RESOURCE_IO_DECODE16, 1);
    acpi_put_number(&template, GUEST_SERIAL_PORT, 2);
    acpi_put_number(&template, GUEST_SERIAL_PORT, 2);
    acpi_put_number(&template, 1, 1); /* alignment */
    acpi_put_number(&template, SERIAL_PORT_BYTES, 1);
    acpi_put_number(&template, RESOURCE_INTERRUPT, 1);
    acpi_put_number(&template, 6, 2); /* bytes that follow */
    acpi_put_number(&template, RESOURCE_CONSUMER_EDGE, 1);
    acpi_put_number(&template, 1, 1); /* one line */
    acpi_put_number(&template, GUEST_SERIAL_IRQ, 4);
    acpi_put_number(&template, RESOURCE_END, 1);
    acpi_put_number(&template, 0, 1); /* no checksum */

    put_op(&body, AML_BYTE);
    acpi_put_number(&body, template.bytes, 1);
    acpi_put(&body, template.data, template.bytes);
    put_op(to, AML_BUFFER);
    put_block(to, &body);
}

static void put_serial_port(struct acpi_buffer *to)
{
    uint8_t bytes[PART_BYTES];
    struct acpi_buffer body = {bytes, 0, sizeof(bytes)};

    acpi_put_text(&body, "COM1");
    put_name(&body, "_HID");
    put_op(&body, AML_DWORD);
    acpi_put_number(&body, PNP0501, 4);
    put_name(&body, "_UID");
    put_op(&body, AML_ZERO);
    put_name(&body, "_CRS");
    put_resources(&body);
    put_op(to, AML_EXTENDED);
    put_op(to, AML_DEVICE);
    put_block(to, &body);
}

static void put_soft_off(struct acpi_buffer *to)
{
    uint8_t bytes[PART_BYTES];
    struct acpi_buffer body = {bytes, 0, sizeof(bytes)};

    acpi_put_number(&body, 4, 1); /* elements */
    put_op(&body, AML_BYTE);
    acpi_put_number(&body, EXIT_PORT_SLEEP_S5, 1);
    for (unsigned i = 1; i < 4; i++)
        put_op(&body, AML_ZERO);
    put_name(to, "\\_S5_");
    put_op(to, AML_PACKAGE);
    put_block(to, &body);
}

void acpi_put_dsdt(struct acpi_buffer *buffer)
{
    uint8_t bytes[PART_BYTES];
    struct acpi_buffer body = {bytes, 0, sizeof(bytes)};

    acpi_put_text(&body, "\\_SB_");
    put_serial_port(&body);
    put_op(buffer, AML_SCOPE);
    put_block(buffer, &body);
    put_soft_off(buffer);
}
