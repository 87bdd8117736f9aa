/* SPDX-License-Identifier: MIT
 *
 * Where both kinds of CPU arrive, and their jobs. */
#include "guest/abi.h"
#include "guest/kernel/layout.h"
#include "guest/lib/io.h"
#include "guest/lib/string.h"
#include "tests/kvm/state_guest/state_guest.h"

uint8_t kernel_stacks[STATE_GUEST_MAX_CPUS][KERNEL_STACK_BYTES] __attribute__((aligned(8192)));

extern const char trampoline_start[], trampoline_end[];
extern const char trampoline_cr3[], trampoline_stack[], trampoline_cpu[];
void kernel_main(void) __attribute__((noreturn));
void smp_entry(unsigned cpu) __attribute__((noreturn));

/* What compilers ask for. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void trampoline_set(const char *slot, uint64_t value)
{
    *(volatile uint64_t *)(TRAMPOLINE + (uint64_t)(slot - trampoline_start)) = value;
}

static void prepare(unsigned cpu)
{
    uint64_t cr3;

    __asm__ volatile("movq %%cr3, %0" : "=r"(cr3));
    memcpy((void *)TRAMPOLINE, trampoline_start, (size_t)(trampoline_end - trampoline_start));
    trampoline_set(trampoline_cr3, cr3);
    trampoline_set(trampoline_stack, (uint64_t)kernel_stacks[cpu] + KERNEL_STACK_BYTES);
    trampoline_set(trampoline_cpu, cpu);
}

static void wait_masked(struct state_guest_mailbox *mailbox, uint64_t job)
{
    __asm__ volatile("cli" : : : "memory");
    while (load(&mailbox->release) != job) {
        store(&mailbox->waits, mailbox->waits + 1);
        cpu_pause();
    }
    __asm__ volatile("sti" : : : "memory");
}

static void do_job(struct state_guest_mailbox *mailbox, unsigned cpu, uint64_t job)
{
    uint64_t a = mailbox->a, b = mailbox->b;

    switch (mailbox->kind) {
    case STATE_GUEST_DEADLINE:
        apic_deadline(cpu, a);
        break;
    case STATE_GUEST_ONE_SHOT:
        apic_timer(APIC_ONE_SHOT, (uint32_t)a);
        break;
    case STATE_GUEST_PERIODIC:
        apic_timer(APIC_PERIODIC, (uint32_t)a);
        break;
    case STATE_GUEST_PIT:
        apic_pit((uint8_t)a, (uint16_t)b);
        break;
    case STATE_GUEST_PIT_ROUTE:
        apic_route_pit((unsigned)a);
        break;
    case STATE_GUEST_HALT:
        __asm__ volatile("hlt" : : : "memory");
        break;
    case STATE_GUEST_MASK:
        wait_masked(mailbox, job);
        break;
    case STATE_GUEST_HOLD_NMI:
        traps_hold_nmi(cpu, job);
        break;
    case STATE_GUEST_PREPARE:
        prepare((unsigned)a);
        break;
    case STATE_GUEST_COMMAND:
        apic_command((uint32_t)a, (uint32_t)b);
        break;
    case STATE_GUEST_WALL:
        mailbox->result = time_of_day(cpu, (unsigned)a);
        break;
    case STATE_GUEST_READ_MSR:
        mailbox->result = msr_read((uint32_t)a);
        break;
    case STATE_GUEST_WRITE_MSR:
        msr_write((uint32_t)a, b);
        break;
    default:
        io_out32(GUEST_EXIT_PORT_DEFAULT, GUEST_EXIT_BAD_COMMAND);
    }
}

static void serve(unsigned cpu) __attribute__((noreturn));
static void serve(unsigned cpu)
{
    struct state_guest_mailbox *mailbox = state_guest_mailbox(cpu);

    traps_load();
    apic_init_cpu(cpu);
    time_init_cpu(cpu);
    store(&mailbox->starts, mailbox->starts + 1);
    __asm__ volatile("sti" : : : "memory");
    for (;;) {
        uint64_t job = load(&mailbox->job);

        if (job != mailbox->done) {
            do_job(mailbox, cpu, job);
            store(&mailbox->done, job);
        }
        time_look(cpu);
        store(&mailbox->beats, mailbox->beats + 1);
        cpu_pause();
    }
}

void kernel_main(void)
{
    serve(0);
}

void smp_entry(unsigned cpu)
{
    serve(cpu);
}
