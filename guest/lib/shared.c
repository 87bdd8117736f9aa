/* SPDX-License-Identifier: MIT
 *
 * The data that both rings see. */
#include "guest/lib/boot_info.h"
#include "guest/lib/cpu.h"

struct boot_info boot_info;
struct cpu_shared cpu_shared[GUEST_MAX_CPUS];
struct cpu_input cpu_input;

struct guest_stats guest_stats __attribute__((section(".stats"), aligned(4096)));
