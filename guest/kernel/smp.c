/* SPDX-License-Identifier: MIT
 *
 * Application processors, started one after the other because they share the trampoline. */
#include "guest/kernel/smp.h"

#include <stdbool.h>

#include "guest/abi.h"
#include "guest/kernel/clock_source.h"
#include "guest/kernel/interrupt.h"
#include "guest/kernel/layout.h"
#include "guest/kernel/paging.h"
#include "guest/kernel/segments.h"
#include "guest/kernel/trap.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/clock.h"
#include "guest/lib/console.h"
#include "guest/lib/io.h"
#include "guest/lib/string.h"
#include "guest/user/user.h"

#define ICR_INIT (0x500u | 0x4000u) /* assert */
#define ICR_SIPI (0x600u | TRAMPOLINE / 4096u)

#define INIT_WAIT_NS  10000000ull
#define START_WAIT_NS 2000000000ull

extern const char trampoline_start[], trampoline_end[];
extern const char trampoline_cr3[], trampoline_stack[], trampoline_cpu[];
void enter_user(void (*entry)(unsigned cpu), uint64_t stack, uint64_t argument)
    __attribute__((noreturn));
void smp_entry(unsigned cpu) __attribute__((noreturn));

/* Number of the CPU that came up last. */
static uint32_t smp_started;

static void trampoline_set(const char *slot, uint64_t value)
{
    *(volatile uint64_t *)(TRAMPOLINE + (uint64_t)(slot - trampoline_start)) = value;
}

static bool started_within(unsigned cpu, uint64_t wait_ns)
{
    uint64_t start = clock_now_ns(0);

    while (__atomic_load_n(&smp_started, __ATOMIC_ACQUIRE) != cpu) {
        if (clock_now_ns(0) - start > wait_ns)
            return false;
        cpu_pause();
    }
    return true;
}

void smp_start(void)
{
    memcpy((void *)TRAMPOLINE, trampoline_start, (size_t)(trampoline_end - trampoline_start));
    trampoline_set(trampoline_cr3, paging_root());
    for (unsigned cpu = 1; cpu < boot_info.ncpus; cpu++) {
        trampoline_set(trampoline_stack, segments_stack_top(cpu));
        trampoline_set(trampoline_cpu, cpu);
        interrupt_command(cpu, ICR_INIT);
        (void)started_within(cpu, INIT_WAIT_NS);
        interrupt_command(cpu, ICR_SIPI);
        if (started_within(cpu, INIT_WAIT_NS))
            continue;
        interrupt_command(cpu, ICR_SIPI);
        if (!started_within(cpu, START_WAIT_NS)) {
            print("kernel: cpu %u does not start\n", cpu);
            machine_exit(GUEST_EXIT_NO_DEVICE);
        }
    }
}

void smp_enter_user(unsigned cpu)
{
    enter_user(user_main, user_stack_top(cpu), cpu);
}

void smp_entry(unsigned cpu)
{
    segments_load(cpu);
    trap_load();
    interrupt_init_cpu(cpu);
    clock_source_init_cpu(cpu);
    __atomic_store_n(&smp_started, cpu, __ATOMIC_RELEASE);
    smp_enter_user(cpu);
}
