/* SPDX-License-Identifier: MIT
 *
 * Clock set-up. Constants: Linux Documentation/virt/kvm/x86/{cpuid,msr}.rst; CPUID 0x15 in Intel
 * SDM volume 2; 0x40000010 is the timing leaf that VMware defined and KVM and QEMU follow. */
#include "guest/kernel/clock_source.h"

#include <stdbool.h>
#include <stdint.h>

#include "guest/kernel/interrupt.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"
#include "guest/lib/string.h"

#define CPUID_KVM_FEATURES    0x40000001u
#define CPUID_TIMING          0x40000010u
#define CPUID_TSC             0x15u
#define KVM_FEATURE_CLOCK2    (1u << 3)
#define MSR_KVM_SYSTEM_TIME   0x4b564d01u
#define MSR_KVM_CLOCK_ENABLED 1u

/* Counted down from, and how much of it calibration waits for: 10 ms. */
#define PIT_FULL  0xffff
#define PIT_TICKS (INTERRUPT_PIT_HZ / 100)
/* Reads before giving up on a PIT that does not count. */
#define PIT_PATIENCE 100000

struct cpuid {
    uint32_t eax, ebx, ecx, edx;
};

static struct cpuid cpuid(uint32_t leaf)
{
    struct cpuid r;

    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(0));
    return r;
}

static bool hypervisor_is_kvm(void)
{
    struct cpuid leaf;

    if (!(cpuid(1).ecx & 1u << 31))
        return false;
    leaf = cpuid(0x40000000);
    /* "KVMKVMKVM\0\0\0" */
    return leaf.ebx == 0x4b4d564b && leaf.ecx == 0x564b4d56 && leaf.edx == 0x4d;
}

static uint64_t tsc_khz_from_cpuid(void)
{
    struct cpuid leaf;

    if (cpuid(0).eax >= CPUID_TSC) {
        leaf = cpuid(CPUID_TSC);
        if (leaf.eax && leaf.ebx && leaf.ecx)
            return (uint64_t)leaf.ecx * leaf.ebx / leaf.eax / 1000;
    }
    if ((cpuid(1).ecx & 1u << 31) && cpuid(0x40000000).eax >= CPUID_TIMING)
        return cpuid(CPUID_TIMING).eax;
    return 0;
}

static uint64_t tsc_khz_from_pit(void)
{
    uint64_t start, end;
    uint16_t left = PIT_FULL;

    interrupt_pit_start(PIT_FULL);
    start = cpu_tsc();
    for (unsigned i = 0; left > PIT_FULL - PIT_TICKS; i++) {
        if (i == PIT_PATIENCE)
            return 0;
        left = interrupt_pit_read();
    }
    end = cpu_tsc();
    return (end - start) * INTERRUPT_PIT_HZ / (PIT_FULL - left) / 1000;
}

void clock_source_init(void)
{
    if (hypervisor_is_kvm() && (cpuid(CPUID_KVM_FEATURES).eax & KVM_FEATURE_CLOCK2)) {
        boot_info.clock = BOOT_CLOCK_KVM;
        return;
    }
    boot_info.clock = BOOT_CLOCK_TSC;
    if (boot_info.tsc_khz)
        return;
    boot_info.tsc_khz = tsc_khz_from_cpuid();
    boot_info.tsc_from = BOOT_TSC_CPUID;
    if (boot_info.tsc_khz)
        return;
    boot_info.tsc_khz = tsc_khz_from_pit();
    boot_info.tsc_from = BOOT_TSC_PIT;
    if (boot_info.tsc_khz)
        return;
    boot_info.tsc_khz = 1000000;
    boot_info.tsc_from = BOOT_TSC_GUESS;
}

void clock_source_init_cpu(unsigned cpu)
{
    uint64_t page = (uint64_t)&cpu_shared[cpu].pvclock | MSR_KVM_CLOCK_ENABLED;

    if (boot_info.clock != BOOT_CLOCK_KVM)
        return;
    __asm__ volatile("wrmsr"
                     :
                     : "c"(MSR_KVM_SYSTEM_TIME), "a"((uint32_t)page), "d"((uint32_t)(page >> 32))
                     : "memory");
}
