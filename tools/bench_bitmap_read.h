/* SPDX-License-Identifier: MIT
 *
 * Reading an array as fast as this CPU can: what no walk over it can beat. */
#ifndef TOOLS_BENCH_BITMAP_READ_H
#define TOOLS_BENCH_BITMAP_READ_H

#include <stddef.h>
#include <stdint.h>

/* Loads every word by the widest loads that there are; returns all of them ORed. */
uint64_t bench_bitmap_read(const uint64_t *words, size_t nwords);

#endif
