/* SPDX-License-Identifier: MIT */
#include "vmm/base/clock.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec now;

    /* Cannot fail for CLOCK_MONOTONIC with a valid pointer. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_SEC + (uint64_t)now.tv_nsec;
}
