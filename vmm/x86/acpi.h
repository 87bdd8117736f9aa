/* SPDX-License-Identifier: MIT
 *
 * ACPI tables: what an operating system must be told that cannot be probed. Of the hardware-reduced
 * kind (ACPI 6.4, section 4.1): no PM registers, no legacy interrupts.
 *
 *   RSDP -> XSDT -> FADT -> DSDT (serial port, S5), MADT (local APICs, IO-APIC)
 */
#ifndef VMM_X86_ACPI_H
#define VMM_X86_ACPI_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"

/* Tables of a machine with ncpus vCPUs, to be put at gpa; the RSDP comes first. The caller frees
 * *tables with free(). -ENOMEM only. */
int acpi_build(unsigned ncpus, gpa_t gpa, uint8_t **tables, size_t *bytes, struct error *err);

#endif
