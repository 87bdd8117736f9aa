/* SPDX-License-Identifier: MIT
 *
 * What the kernel found out about the machine, for both rings: written by ring 0 before ring 3
 * starts, then read only. */
#ifndef GUEST_LIB_BOOT_INFO_H
#define GUEST_LIB_BOOT_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/abi.h"

#define BOOT_MAX_RANGES   32
#define BOOT_COMMAND_LINE 2048
#define BOOT_PAGE_BYTES   4096u

struct boot_range {
    uint64_t start, end; /* page-aligned, end exclusive */
};

enum boot_clock {
    BOOT_CLOCK_KVM, /* pvclock pages */
    BOOT_CLOCK_TSC, /* the TSC alone */
};

/* Who told the TSC's frequency. */
enum boot_tsc_from { BOOT_TSC_TREE, BOOT_TSC_CPUID, BOOT_TSC_PIT, BOOT_TSC_GUESS };

struct boot_info {
    char command_line[BOOT_COMMAND_LINE];
    bool command_line_cut; /* it was longer */
    bool device_tree;      /* one was handed over and is sound */
    unsigned ncpus;        /* vCPUs to run on */
    unsigned ncpus_present;
    uint16_t exit_port;
    uint16_t serial_port;
    uint16_t probe_port;           /* 0: no probe */
    uint64_t probe_mmio;           /* 0: no probe */
    struct boot_range framebuffer; /* empty: none */
    uint64_t ram_bytes;
    /* All RAM as the memory map has it, sorted, adjacent ranges joined; and what of it is left for
     * workloads, mapped for ring 3. */
    unsigned nram, nfree;
    struct boot_range ram[BOOT_MAX_RANGES];
    struct boot_range free[BOOT_MAX_RANGES + 1];
    enum boot_clock clock;
    uint64_t tsc_khz;
    enum boot_tsc_from tsc_from;
};

extern struct boot_info boot_info;
/* At GUEST_STATS_GPA. */
extern struct guest_stats guest_stats;

#endif
