/* SPDX-License-Identifier: MIT
 *
 * The boot CPU's way from start.S to ring 3. */
#include <stdint.h>

#include "guest/kernel/clock_source.h"
#include "guest/kernel/interrupt.h"
#include "guest/kernel/paging.h"
#include "guest/kernel/platform.h"
#include "guest/kernel/segments.h"
#include "guest/kernel/smp.h"
#include "guest/kernel/trap.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/command_line.h"
#include "guest/lib/console.h"

void kernel_main(uint32_t start_info) __attribute__((noreturn));

/* The one word that the kernel itself heeds. A bad value is reported by ring 3, which checks every
 * word of the command line. */
static void choose_ncpus(void)
{
    uint64_t ncpus;

    if (command_line_number("cpus", &ncpus) && ncpus >= 1 && ncpus <= boot_info.ncpus_present)
        boot_info.ncpus = (unsigned)ncpus;
}

void kernel_main(uint32_t start_info)
{
    trap_init();
    trap_load();
    platform_init(start_info);
    console_init();
    choose_ncpus();
    segments_init();
    segments_load(0);
    paging_init();
    interrupt_init();
    interrupt_init_cpu(0);
    clock_source_init();
    clock_source_init_cpu(0);
    smp_start();
    smp_enter_user(0);
}
