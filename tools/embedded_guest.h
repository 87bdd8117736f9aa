/* SPDX-License-Identifier: MIT
 *
 * The test guest's ELF, as it was built, inside this program. */
#ifndef TOOLS_EMBEDDED_GUEST_H
#define TOOLS_EMBEDDED_GUEST_H

#include <stdint.h>

extern const uint8_t embedded_guest_start[];
extern const uint8_t embedded_guest_end[];

#endif
