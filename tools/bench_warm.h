/* SPDX-License-Identifier: MIT
 *
 * Free memory in the same state before everything that is measured. */
#ifndef TOOLS_BENCH_WARM_H
#define TOOLS_BENCH_WARM_H

#include <stdint.h>

/* In a virtual machine the host below may have taken free memory back (free page reporting), and
 * gives it again at many times the cost of copying to it. What is measured would pay for it or not,
 * by what ended shortly before. So a process touches as much of the free memory as will be wanted,
 * and ends. For a caller with one thread. */
void bench_warm(uint64_t bytes);

#endif
