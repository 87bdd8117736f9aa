/* SPDX-License-Identifier: MIT
 *
 * Sizes and durations as people write them, and the one overflow-safe range check. */
#ifndef VMM_BASE_SIZE_H
#define VMM_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define SIZE_KIB 1024ull
#define SIZE_MIB (1024ull * SIZE_KIB)
#define SIZE_GIB (1024ull * SIZE_MIB)

/* Parses "4096", "64K", "512M", "5G" (powers of 1024, upper or lower case) into bytes.
 * -EINVAL with a line that names the accepted form for anything else, overflow included. */
int size_parse(const char *text, uint64_t *bytes, struct error *err);

/* Parses "250us", "50ms", "1s", "800ns" into nanoseconds; a unit is required. -EINVAL as above. */
int size_parse_duration(const char *text, uint64_t *ns, struct error *err);

/* Parses an unsigned decimal or 0x… number no larger than max. -EINVAL as above. */
int size_parse_number(const char *text, uint64_t max, uint64_t *value, struct error *err);

/* Writes e.g. "1.0 GiB" into buf and returns buf. 16 bytes are enough. */
const char *size_format(uint64_t bytes, char *buf, size_t buf_bytes);

/* Writes e.g. "3.42 ms" into buf and returns buf. 16 bytes are enough. */
const char *size_format_duration(uint64_t ns, char *buf, size_t buf_bytes);

/* True where [start, start + len) lies within [0, limit), without overflowing. */
static inline bool size_range_within(uint64_t start, uint64_t len, uint64_t limit)
{
    return start <= limit && len <= limit - start;
}

#endif
