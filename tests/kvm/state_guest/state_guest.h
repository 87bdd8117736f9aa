/* SPDX-License-Identifier: MIT
 *
 * A guest that does what the mailbox says and counts what arrives, all in ring 0. Boot, trampoline
 * and trap stubs are the test guest's. */
#ifndef TESTS_KVM_STATE_GUEST_STATE_GUEST_H
#define TESTS_KVM_STATE_GUEST_STATE_GUEST_H

#include <stdint.h>

#include "tests/kvm/state_guest/mailbox.h"

#define STATE_GUEST_VECTOR_TIMER 0x40
#define STATE_GUEST_VECTOR_IPI   0x41
#define STATE_GUEST_VECTOR_PIT   0x42 /* by the IO-APIC */

#define MSR_TSC_DEADLINE 0x6e0u

static inline struct state_guest_mailbox *state_guest_mailbox(unsigned cpu)
{
    return (struct state_guest_mailbox *)(uintptr_t)STATE_GUEST_GPA + cpu;
}

static inline uint64_t msr_read(uint32_t index)
{
    uint32_t low, high;

    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(index) : "memory");
    return (uint64_t)high << 32 | low;
}

static inline void msr_write(uint32_t index, uint64_t value)
{
    __asm__ volatile("wrmsr"
                     :
                     : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
                     : "memory");
}

/* apic.c: local APIC, PICs, PIT and IO-APIC. */
void apic_init_cpu(unsigned cpu);
void apic_deadline(unsigned cpu, uint64_t ticks);
void apic_timer(uint32_t mode, uint32_t count);
#define APIC_ONE_SHOT 0u
#define APIC_PERIODIC 0x20000u
void apic_command(uint32_t apic_id, uint32_t command);
void apic_pit(uint8_t command, uint16_t count);
void apic_route_pit(unsigned by_io_apic);
/* Counts and acknowledges. */
void apic_interrupt(unsigned cpu, unsigned vector);

/* traps.c: interrupts and exceptions. */
void traps_load(void);
void traps_hold_nmi(unsigned cpu, uint64_t job);

/* time.c: kvmclock. */
void time_init_cpu(unsigned cpu);
void time_look(unsigned cpu);
uint64_t time_of_day(unsigned cpu, unsigned anew);

#endif
