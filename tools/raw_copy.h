/* SPDX-License-Identifier: MIT
 *
 * The yardstick of a migration: a plain send/recv of a cold buffer over TCP loopback into fresh
 * memory, two processes. */
#ifndef TOOLS_RAW_COPY_H
#define TOOLS_RAW_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"

/* *ns gets the time from the first byte sent to the last byte received. `huge`: both ends' memory
 * is of huge pages. For a caller with one thread; its processes have ended on return, or end with
 * it. 0 or -errno with a line. */
int raw_copy(uint64_t bytes, bool huge, uint64_t *ns, struct error *err);

#endif
