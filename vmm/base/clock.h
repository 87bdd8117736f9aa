/* SPDX-License-Identifier: MIT
 *
 * The one clock that durations and deadlines are measured with. */
#ifndef VMM_BASE_CLOCK_H
#define VMM_BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_SEC 1000000000ull
#define CLOCK_NS_PER_MS  1000000ull
#define CLOCK_NS_PER_US  1000ull

/* CLOCK_MONOTONIC in nanoseconds: comparable between processes of one host. */
uint64_t clock_now_ns(void);

#endif
