/* SPDX-License-Identifier: MIT
 *
 * Section numbers are ACPI 6.4's. */
#include "vmm/x86/acpi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/device/exit_port.h"
#include "vmm/x86/acpi_buffer.h"

#define TABLES_BYTES   4096
#define HEADER_BYTES   36 /* 5.2.6 */
#define LENGTH_AT      4
#define CHECKSUM_AT    9
#define RSDP_BYTES     36 /* 5.2.5.3 */
#define RSDP_V1_BYTES  20
#define RSDP_CHECK_AT  8
#define RSDP_XCHECK_AT 32
#define TABLE_ALIGN    16

static const char oem_id[] = "PGFRRY", oem_table_id[] = "PAGEFRRY", creator_id[] = "PGFR";

/* 5.2.9: what there is not is told, else it is taken for granted. */
#define FADT_BYTES       276
#define FADT_REVISION    6
#define FADT_MINOR       4
#define BOOT_NO_VGA      (1u << 2)
#define BOOT_NO_CMOS_RTC (1u << 5)
#define FADT_WBINVD      (1u << 0)
#define FADT_NO_POWER    (1u << 4) /* no power button in hardware */
#define FADT_NO_SLEEP    (1u << 5)
#define FADT_RESET       (1u << 10)
#define FADT_HW_REDUCED  (1u << 20)

/* 5.2.12. */
#define MADT_REVISION      5
#define MADT_LOCAL_APIC    0
#define MADT_IO_APIC       1
#define MADT_LOCAL_NMI     4
#define MADT_ENABLED       1
#define MADT_ALL_CPUS      0xff
#define MADT_LINT1         1
#define LOCAL_APIC_GPA     0xfee00000u
#define IO_APIC_GPA        0xfec00000u
#define ADDRESS_SPACE_PORT 1

static uint8_t checksum(const uint8_t *data, size_t bytes)
{
    uint8_t sum = 0;

    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + data[i]);
    return (uint8_t)-sum;
}

static void put_zeros(struct acpi_buffer *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        acpi_put_number(to, 0, 1);
}

/* Returns the offset of the table. */
static size_t begin_table(struct acpi_buffer *to, const char *signature, unsigned revision)
{
    size_t start;

    put_zeros(to, (TABLE_ALIGN - to->bytes % TABLE_ALIGN) % TABLE_ALIGN);
    start = to->bytes;
    acpi_put_text(to, signature);
    acpi_put_number(to, 0, 4); /* length, and below the checksum: end_table() */
    acpi_put_number(to, revision, 1);
    acpi_put_number(to, 0, 1);
    acpi_put_text(to, oem_id);
    acpi_put_text(to, oem_table_id);
    acpi_put_number(to, 1, 4); /* OEM revision */
    acpi_put_text(to, creator_id);
    acpi_put_number(to, 1, 4);
    return start;
}

static void end_table(struct acpi_buffer *to, size_t start)
{
    uint8_t *table = to->data + start;
    size_t bytes = to->bytes - start;

    for (unsigned i = 0; i < 4; i++)
        table[LENGTH_AT + i] = (uint8_t)(bytes >> (8 * i));
    table[CHECKSUM_AT] = checksum(table, bytes);
}

/* 5.2.3.2 Generic Address Structure: one byte at a port. */
static void put_port(struct acpi_buffer *to, uint16_t port)
{
    acpi_put_number(to, ADDRESS_SPACE_PORT, 1);
    acpi_put_number(to, 8, 1); /* bits */
    acpi_put_number(to, 0, 1); /* from bit 0 */
    acpi_put_number(to, 1, 1); /* accessed as a byte */
    acpi_put_number(to, port, 8);
}

static size_t put_dsdt(struct acpi_buffer *to)
{
    size_t start = begin_table(to, "DSDT", 2);

    acpi_put_dsdt(to);
    end_table(to, start);
    return start;
}

static size_t put_fadt(struct acpi_buffer *to, gpa_t dsdt)
{
    size_t start = begin_table(to, "FACP", FADT_REVISION);

    put_zeros(to, 4); /* no FACS */
    acpi_put_number(to, dsdt, 4);
    put_zeros(to, 109 - 44); /* PM registers: none with reduced hardware */
    acpi_put_number(to, BOOT_NO_VGA | BOOT_NO_CMOS_RTC, 2);
    put_zeros(to, 1);
    acpi_put_number(to, FADT_WBINVD | FADT_NO_POWER | FADT_NO_SLEEP | FADT_RESET | FADT_HW_REDUCED,
                    4);
    put_port(to, EXIT_PORT_RESET);
    acpi_put_number(to, EXIT_PORT_RESET_VALUE, 1);
    put_zeros(to, 2); /* ARM's boot flags */
    acpi_put_number(to, FADT_MINOR, 1);
    put_zeros(to, 8); /* no 64-bit FACS */
    acpi_put_number(to, dsdt, 8);
    put_zeros(to, 244 - 148);
    put_port(to, EXIT_PORT_SLEEP);
    put_port(to, EXIT_PORT_SLEEP + 1);
    acpi_put_text(to, oem_table_id); /* the hypervisor's name, 8 bytes */
    end_table(to, start);
    return start;
}

static size_t put_madt(struct acpi_buffer *to, unsigned ncpus)
{
    size_t start = begin_table(to, "APIC", MADT_REVISION);

    acpi_put_number(to, LOCAL_APIC_GPA, 4);
    acpi_put_number(to, 0, 4); /* no 8259 that must be masked */
    for (unsigned i = 0; i < ncpus; i++) {
        acpi_put_number(to, MADT_LOCAL_APIC, 1);
        acpi_put_number(to, 8, 1);
        acpi_put_number(to, i, 1); /* processor UID */
        acpi_put_number(to, i, 1); /* APIC id, as KVM numbers vCPUs */
        acpi_put_number(to, MADT_ENABLED, 4);
    }
    acpi_put_number(to, MADT_IO_APIC, 1);
    acpi_put_number(to, 12, 1);
    acpi_put_number(to, 0, 2); /* id, reserved */
    acpi_put_number(to, IO_APIC_GPA, 4);
    acpi_put_number(to, 0, 4); /* its first interrupt */
    acpi_put_number(to, MADT_LOCAL_NMI, 1);
    acpi_put_number(to, 6, 1);
    acpi_put_number(to, MADT_ALL_CPUS, 1);
    acpi_put_number(to, 0, 2); /* polarity and trigger as the bus has them */
    acpi_put_number(to, MADT_LINT1, 1);
    end_table(to, start);
    return start;
}

static void put_rsdp(uint8_t *rsdp, gpa_t xsdt)
{
    struct acpi_buffer to = {rsdp, 0, RSDP_BYTES};

    acpi_put_text(&to, "RSD PTR ");
    acpi_put_number(&to, 0, 1);
    acpi_put_text(&to, oem_id);
    acpi_put_number(&to, 2, 1); /* revision */
    acpi_put_number(&to, 0, 4); /* no RSDT */
    acpi_put_number(&to, RSDP_BYTES, 4);
    acpi_put_number(&to, xsdt, 8);
    acpi_put_number(&to, 0, 4);
    rsdp[RSDP_CHECK_AT] = checksum(rsdp, RSDP_V1_BYTES);
    rsdp[RSDP_XCHECK_AT] = checksum(rsdp, RSDP_BYTES);
}

int acpi_build(unsigned ncpus, gpa_t gpa, uint8_t **tables, size_t *bytes, struct error *err)
{
    struct acpi_buffer to = {calloc(1, TABLES_BYTES), 0, TABLES_BYTES};
    size_t fadt, madt, xsdt;

    if (!to.data)
        return error_set(err, ENOMEM, "no memory for ACPI tables");
    put_zeros(&to, RSDP_BYTES);
    fadt = put_fadt(&to, gpa + put_dsdt(&to));
    madt = put_madt(&to, ncpus);
    xsdt = begin_table(&to, "XSDT", 1);
    acpi_put_number(&to, gpa + fadt, 8);
    acpi_put_number(&to, gpa + madt, 8);
    end_table(&to, xsdt);
    put_rsdp(to.data, gpa + xsdt);
    *tables = to.data;
    *bytes = to.bytes;
    return 0;
}
