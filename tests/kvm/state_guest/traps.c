/* SPDX-License-Identifier: MIT
 *
 * Interrupts and exceptions. Those that no test asks for end the guest. */
#include "guest/abi.h"
#include "guest/kernel/layout.h"
#include "guest/kernel/trap.h"

#include "guest/lib/io.h"
#include "tests/kvm/state_guest/state_guest.h"
#include <stdbool.h>

#define TRAP_NMI        2
#define TRAP_PAGE_FAULT 14
#define GATE_INTERRUPT  0x8e00
#define RFLAGS_IF       0x200u

struct gate {
    uint16_t offset_low, selector, type, offset_middle;
    uint32_t offset_high, reserved;
};

extern const char trap_stubs[]; /* 16 bytes each */
extern uint8_t kernel_stacks[STATE_GUEST_MAX_CPUS][KERNEL_STACK_BYTES];

static struct gate idt[VECTOR_COUNT] __attribute__((aligned(16)));
/* The job that the next NMI's handler waits for to be released; 0: it does not wait. */
static uint64_t held_by[STATE_GUEST_MAX_CPUS];

/* Every CPU writes the same. */
void traps_load(void)
{
    struct {
        uint16_t limit;
        uint64_t base;
    } __attribute__((packed)) pointer = {sizeof(idt) - 1, (uint64_t)idt};

    for (unsigned vector = 0; vector < VECTOR_COUNT; vector++) {
        uint64_t stub = (uint64_t)trap_stubs + 16 * vector;

        idt[vector].offset_low = (uint16_t)stub;
        idt[vector].selector = SELECTOR_KCODE;
        idt[vector].type = GATE_INTERRUPT;
        idt[vector].offset_middle = (uint16_t)(stub >> 16);
        idt[vector].offset_high = (uint32_t)(stub >> 32);
    }
    __asm__ volatile("lidt %0" : : "m"(pointer));
}

void traps_hold_nmi(unsigned cpu, uint64_t job)
{
    held_by[cpu] = job;
}

static void on_nmi(struct state_guest_mailbox *mailbox, unsigned cpu)
{
    uint64_t job = held_by[cpu];

    held_by[cpu] = 0;
    __atomic_store_n(&mailbox->nmis, mailbox->nmis + 1, __ATOMIC_RELEASE);
    while (job && __atomic_load_n(&mailbox->release, __ATOMIC_ACQUIRE) != job) {
        __atomic_store_n(&mailbox->waits, mailbox->waits + 1, __ATOMIC_RELAXED);
        cpu_pause();
    }
}

static void on_page_fault(struct state_guest_mailbox *mailbox, const struct trap_frame *frame)
{
    uint64_t address;

    __asm__ volatile("movq %%cr2, %0" : "=r"(address));
    mailbox->fault_address = address;
    mailbox->fault_error = frame->error;
    __atomic_store_n(&mailbox->faults, mailbox->faults + 1, __ATOMIC_RELEASE);
}

/* QEMU's emulated SVM delivers an interrupt that KVM injected once more, on top of itself, where it
 * is disturbed before the guest's next exit (helper_vmrun leaves exception_index set). The first
 * entry acknowledges it. */
static bool is_doubled(const struct trap_frame *frame)
{
    return frame->vector >= VECTOR_PIC && !(frame->rflags & RFLAGS_IF);
}

void trap_dispatch(struct trap_frame *frame)
{
    uint64_t offset = (uint64_t)frame - (uint64_t)kernel_stacks;
    unsigned cpu = (unsigned)(offset / KERNEL_STACK_BYTES);

    if (is_doubled(frame))
        state_guest_mailbox(cpu)->impossible++;
    else if (frame->vector >= VECTOR_PIC && frame->vector != VECTOR_SPURIOUS)
        apic_interrupt(cpu, (unsigned)frame->vector);
    else if (frame->vector == TRAP_NMI)
        on_nmi(state_guest_mailbox(cpu), cpu);
    else if (frame->vector == TRAP_PAGE_FAULT)
        on_page_fault(state_guest_mailbox(cpu), frame);
    else if (frame->vector != VECTOR_SPURIOUS)
        io_out32(GUEST_EXIT_PORT_DEFAULT, GUEST_EXIT_EXCEPTION);
}
