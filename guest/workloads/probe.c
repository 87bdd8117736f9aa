/* SPDX-License-Identifier: MIT
 *
 * Access to the probe device from ring 3: its ports are open in the I/O permission bitmap, its page
 * is mapped. */
#include "guest/workloads/probe.h"

#include "guest/abi.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/console.h"
#include "guest/lib/io.h"

void probe_require(const char *workload)
{
    if (boot_info.probe_port && boot_info.probe_mmio)
        return;
    print("%s: no probe device in the device tree\n", workload);
    machine_exit(GUEST_EXIT_NO_DEVICE);
}

uint32_t probe_read(enum probe_window window, unsigned reg)
{
    if (window == PROBE_WINDOW_MMIO)
        return mmio_read32(boot_info.probe_mmio + reg);
    return io_in32((uint16_t)(boot_info.probe_port + reg));
}

void probe_write(enum probe_window window, unsigned reg, uint32_t value)
{
    if (window == PROBE_WINDOW_MMIO)
        mmio_write32(boot_info.probe_mmio + reg, value);
    else
        io_out32((uint16_t)(boot_info.probe_port + reg), value);
}

const char *probe_window_name(enum probe_window window)
{
    return window == PROBE_WINDOW_MMIO ? "MMIO" : "port";
}
