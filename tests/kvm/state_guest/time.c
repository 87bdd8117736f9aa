/* SPDX-License-Identifier: MIT
 *
 * kvmclock as a kernel uses it: Linux Documentation/virt/kvm/x86/msr.rst. */
#include "guest/lib/boot_info.h"
#include "guest/lib/clock.h"
#include "guest/lib/cpu.h"
#include "tests/kvm/state_guest/state_guest.h"

#define MSR_KVM_WALL_CLOCK  0x4b564d00u
#define MSR_KVM_SYSTEM_TIME 0x4b564d01u
#define SYSTEM_TIME_ENABLED 1u
#define CLOCK_STABLE        1u /* all CPUs' clocks are one */
#define NS_PER_SECOND       1000000000ull

/* When the guest's clock was 0. */
struct wall_clock {
    uint32_t version, seconds, nanoseconds;
} __attribute__((aligned(64)));

static struct wall_clock wall_clock[STATE_GUEST_MAX_CPUS];
static uint64_t last[STATE_GUEST_MAX_CPUS];
/* Over all CPUs, where the clock is stable. */
static uint64_t last_of_all;

static void ask_wall_clock(unsigned cpu)
{
    msr_write(MSR_KVM_WALL_CLOCK, (uint64_t)&wall_clock[cpu]);
}

void time_init_cpu(unsigned cpu)
{
    boot_info.clock = BOOT_CLOCK_KVM;
    msr_write(MSR_KVM_SYSTEM_TIME, (uint64_t)&cpu_shared[cpu].pvclock | SYSTEM_TIME_ENABLED);
    ask_wall_clock(cpu);
    last[cpu] = 0;
}

void time_look(unsigned cpu)
{
    uint64_t others = __atomic_load_n(&last_of_all, __ATOMIC_SEQ_CST);
    uint8_t flags = __atomic_load_n(&cpu_shared[cpu].pvclock.flags, __ATOMIC_RELAXED);
    uint64_t now = clock_now_ns(cpu);

    if (now < last[cpu] || (flags & CLOCK_STABLE && now < others))
        state_guest_mailbox(cpu)->clock_steps++;
    last[cpu] = now;
    while (flags & CLOCK_STABLE && now > others) {
        if (__atomic_compare_exchange_n(&last_of_all, &others, now, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            break;
    }
}

uint64_t time_of_day(unsigned cpu, unsigned anew)
{
    const struct wall_clock *wall = &wall_clock[cpu];

    if (anew)
        ask_wall_clock(cpu);
    return __atomic_load_n(&wall->seconds, __ATOMIC_RELAXED) * NS_PER_SECOND +
           __atomic_load_n(&wall->nanoseconds, __ATOMIC_RELAXED) + clock_now_ns(cpu);
}
