/* SPDX-License-Identifier: MIT
 *
 * hello: says what it found, and ends. */
#include "guest/lib/boot_info.h"
#include "guest/lib/clock.h"
#include "guest/lib/console.h"
#include "guest/workloads/workloads.h"

static const struct param params[] = {{.key = NULL}};

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
}

const struct workload workload_hello = {
    .name = GUEST_WORKLOAD_HELLO,
    .about = "says what it found, and ends",
    .params = params,
    .summary = summary,
};
