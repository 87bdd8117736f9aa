/* SPDX-License-Identifier: MIT
 *
 * Reading the clock: KVM's clock page where there is one, else the TSC and its frequency. */
#include "guest/lib/clock.h"

#include "guest/lib/boot_info.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"

static uint64_t scale(uint64_t value, uint64_t factor_32)
{
    return (uint64_t)((unsigned __int128)value * factor_32 >> 32);
}

static uint64_t clock_from_pvclock(const struct cpu_pvclock *page)
{
    uint32_t version;
    uint64_t now;

    /* The host writes it only while this CPU is not running guest code, but that may be between
     * any two of these loads. */
    do {
        uint64_t delta;

        version = __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
        delta = cpu_tsc() - __atomic_load_n(&page->tsc_timestamp, __ATOMIC_RELAXED);
        if (page->tsc_shift >= 0)
            delta <<= page->tsc_shift;
        else
            delta >>= -page->tsc_shift;
        now = scale(delta, __atomic_load_n(&page->tsc_to_system_mul, __ATOMIC_RELAXED)) +
              __atomic_load_n(&page->system_time, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while ((version & 1) || version != __atomic_load_n(&page->version, __ATOMIC_RELAXED));
    return now;
}

uint64_t clock_now_ns(unsigned cpu)
{
    if (boot_info.clock == BOOT_CLOCK_KVM)
        return clock_from_pvclock(&cpu_shared[cpu].pvclock);
    return scale(cpu_tsc(), (1000000ull << 32) / boot_info.tsc_khz);
}

const char *clock_name(void)
{
    return boot_info.clock == BOOT_CLOCK_KVM ? "kvmclock" : "tsc";
}

const char *clock_tsc_from(void)
{
    static const char *const names[] = {[BOOT_TSC_TREE] = "device tree",
                                        [BOOT_TSC_CPUID] = "cpuid",
                                        [BOOT_TSC_PIT] = "pit",
                                        [BOOT_TSC_GUESS] = "guess"};

    return names[boot_info.tsc_from];
}
