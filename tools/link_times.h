/* SPDX-License-Identifier: MIT
 *
 * The bounds of --deadline and --keepalive. */
#ifndef TOOLS_LINK_TIMES_H
#define TOOLS_LINK_TIMES_H

#include <stdint.h>

#include "vmm/base/error.h"

/* -EINVAL with a line where one of them is out of bounds. */
int link_times_check(uint64_t deadline_ns, uint64_t keepalive_ns, struct error *err);

#endif
