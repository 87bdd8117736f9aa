/* SPDX-License-Identifier: MIT
 *
 * hello: says what it found, and ends. */
#include "guest/lib/boot_info.h"
#include "guest/lib/clock.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"
#include "guest/workloads/workloads.h"

extern const char kernel_data_start[]; /* linker.ld */

enum { HELLO_FAULT };

static const struct param params[] = {
    [HELLO_FAULT] = {.key = "fault", .type = PARAM_CHOICE, .choices = "none|de|ud|gp|pf|kernel"},
    {.key = NULL},
};

/* Runs into an exception, to show what the guest then says. */
static void run_into(uint64_t fault)
{
    switch (fault) {
    case 1: /* #DE */
        __asm__ volatile("xorl %%ecx, %%ecx; divl %%ecx" : : : "eax", "ecx", "edx");
        break;
    case 2: /* #UD: a call that there is not */
        cpu_call((enum cpu_call)77, 0, 0);
        break;
    case 3: /* #GP: a port that is not open to ring 3 */
        io_out8(0x80, 0);
        break;
    case 4: /* #PF: nothing is mapped there */
        mmio_write32(8, 0);
        break;
    case 5: /* #PF: ring 0's */
        mmio_write32((uint64_t)kernel_data_start, 0);
        break;
    default:
        break;
    }
}

static void summary(struct run *run)
{
    uint64_t kib = boot_info.ram_bytes / 1024;

    print("hello from the pageferry test guest\n");
    print("memory %lu KiB in %u ranges, cpus %u, device tree %s, ", kib, boot_info.nram, run->ncpus,
          boot_info.device_tree ? "yes" : "no");
    if (boot_info.clock == BOOT_CLOCK_TSC)
        print("clock %s at %lu kHz (%s)\n", clock_name(), boot_info.tsc_khz, clock_tsc_from());
    else
        print("clock %s\n", clock_name());
    run_into(run->params.value[HELLO_FAULT]);
}

const struct workload workload_hello = {
    .name = GUEST_WORKLOAD_HELLO,
    .about = "says what it found, and ends",
    .params = params,
    .summary = summary,
};
