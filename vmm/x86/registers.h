/* SPDX-License-Identifier: MIT
 *
 * A vCPU's registers as text for people, in the style of QEMU's "info registers". */
#ifndef VMM_X86_REGISTERS_H
#define VMM_X86_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define REGISTERS_TEXT_BYTES 2048

/* The vCPU must not be running in another thread. Text that does not fit is cut. */
int registers_text(int vcpu_fd, unsigned cpu, char *text, size_t text_bytes, struct error *err);
int registers_rip(int vcpu_fd, uint64_t *rip);

#endif
