/* SPDX-License-Identifier: MIT
 *
 * The guest's clock, in either ring. */
#ifndef GUEST_LIB_CLOCK_H
#define GUEST_LIB_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some moment before boot, as CPU `cpu`, which runs this, sees them. */
uint64_t clock_now_ns(unsigned cpu);

/* "kvmclock" or "tsc"; and who told the TSC's frequency. */
const char *clock_name(void);
const char *clock_tsc_from(void);

#endif
