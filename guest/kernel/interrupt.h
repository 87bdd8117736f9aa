/* SPDX-License-Identifier: MIT
 *
 * Interrupt controllers and timers: PICs and PIT for what is wired to them (console input, and the
 * PIT's tick if a workload asks for it), each CPU's local APIC for everything else. */
#ifndef GUEST_KERNEL_INTERRUPT_H
#define GUEST_KERNEL_INTERRUPT_H

#include <stdint.h>

/* PICs: remapped, everything masked but console input. Boot CPU, once, before any interrupt. */
void interrupt_init(void);
/* Enables the local APIC of this CPU; only the boot CPU takes the PICs' interrupts. */
void interrupt_init_cpu(unsigned cpu);
/* A vector from 0x20 up arrived on this CPU. */
void interrupt_handle(unsigned cpu, unsigned vector);

/* cpu_call() back ends, interrupts off. See guest/lib/cpu.h. */
int64_t interrupt_set_timer(unsigned cpu, uint64_t hz, uint64_t timer);
void interrupt_poll_input(void);

/* Sends an interrupt command (Intel SDM volume 3, 10.6.1) and waits until it is out. */
void interrupt_command(unsigned apic_id, uint32_t command);

/* PIT channel 0 as a free running counter, for calibration: starts it; reads what is left. */
void interrupt_pit_start(uint16_t divisor);
uint16_t interrupt_pit_read(void);

#define INTERRUPT_PIT_HZ 1193182u

#endif
