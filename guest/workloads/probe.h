/* SPDX-License-Identifier: MIT
 *
 * The probe device (abi.h) through either of its windows. */
#ifndef GUEST_WORKLOADS_PROBE_H
#define GUEST_WORKLOADS_PROBE_H

#include <stdint.h>

enum probe_window { PROBE_WINDOW_PORT, PROBE_WINDOW_MMIO };

/* Ends the guest with GUEST_EXIT_NO_DEVICE where there is none. */
void probe_require(const char *workload);
uint32_t probe_read(enum probe_window window, unsigned reg);
void probe_write(enum probe_window window, unsigned reg, uint32_t value);
const char *probe_window_name(enum probe_window window);

#endif
