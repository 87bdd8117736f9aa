/* SPDX-License-Identifier: MIT
 *
 * Interrupt controllers and timers: Intel SDM volume 3, chapter 10; 8259A; 8254; 82093AA. */
#include "guest/kernel/layout.h"
#include "guest/lib/io.h"
#include "tests/kvm/state_guest/state_guest.h"

#define LAPIC           0xfee00000u
#define LAPIC_EOI       0x0b0
#define LAPIC_SVR       0x0f0
#define LAPIC_ICR_LOW   0x300
#define LAPIC_ICR_HIGH  0x310
#define LAPIC_LVT_TIMER 0x320
#define LAPIC_LVT0      0x350
#define LAPIC_INITIAL   0x380
#define LAPIC_DIVIDE    0x3e0

#define LAPIC_ENABLED  0x100
#define LAPIC_EXTINT   0x700
#define LAPIC_MASKED   0x10000
#define LAPIC_DEADLINE 0x40000
#define LAPIC_DIVIDE_1 0xb
#define LAPIC_PENDING  0x1000

#define PIC1        0x20
#define PIC2        0xa0
#define PIC_ICW1    0x11
#define PIC_EOI     0x20
#define PIC_CASCADE 2

#define PIT_CHANNEL0 0x40
#define PIT_COMMAND  0x43

#define IO_APIC         0xfec00000u
#define IO_APIC_DATA    0x10
#define IO_APIC_TABLE   0x10 /* KVM wires the PIT to pin 0, as it does to the PIC's */
#define IO_APIC_MASKED  0x10000
#define ALL_PINS_MASKED 0xff

/* The TSC that each CPU's deadline is for. */
static uint64_t deadline[STATE_GUEST_MAX_CPUS];

static void lapic_write(unsigned reg, uint32_t value)
{
    mmio_write32(LAPIC + reg, value);
}

static void io_apic_write(unsigned reg, uint32_t value)
{
    mmio_write32(IO_APIC, reg);
    mmio_write32(IO_APIC + IO_APIC_DATA, value);
}

static void init_pics(void)
{
    io_out8(PIC1, PIC_ICW1);
    io_out8(PIC2, PIC_ICW1);
    io_out8(PIC1 + 1, VECTOR_PIC);
    io_out8(PIC2 + 1, VECTOR_PIC + 8);
    io_out8(PIC1 + 1, 1 << PIC_CASCADE);
    io_out8(PIC2 + 1, PIC_CASCADE);
    io_out8(PIC1 + 1, 1); /* 8086 mode */
    io_out8(PIC2 + 1, 1);
    io_out8(PIC1 + 1, ALL_PINS_MASKED);
    io_out8(PIC2 + 1, ALL_PINS_MASKED);
}

void apic_init_cpu(unsigned cpu)
{
    lapic_write(LAPIC_SVR, LAPIC_ENABLED | VECTOR_SPURIOUS);
    lapic_write(LAPIC_LVT_TIMER, LAPIC_MASKED);
    lapic_write(LAPIC_DIVIDE, LAPIC_DIVIDE_1);
    lapic_write(LAPIC_LVT0, LAPIC_MASKED);
    if (cpu == 0)
        init_pics();
}

void apic_deadline(unsigned cpu, uint64_t ticks)
{
    deadline[cpu] = cpu_tsc() + ticks;
    lapic_write(LAPIC_LVT_TIMER, LAPIC_DEADLINE | STATE_GUEST_VECTOR_TIMER);
    msr_write(MSR_TSC_DEADLINE, deadline[cpu]);
}

void apic_timer(uint32_t mode, uint32_t count)
{
    lapic_write(LAPIC_LVT_TIMER, mode | STATE_GUEST_VECTOR_TIMER);
    lapic_write(LAPIC_INITIAL, count);
}

void apic_command(uint32_t apic_id, uint32_t command)
{
    lapic_write(LAPIC_ICR_HIGH, apic_id << 24);
    lapic_write(LAPIC_ICR_LOW, command);
    while (mmio_read32(LAPIC + LAPIC_ICR_LOW) & LAPIC_PENDING)
        cpu_pause();
}

void apic_pit(uint8_t command, uint16_t count)
{
    io_out8(PIT_COMMAND, command);
    io_out8(PIT_CHANNEL0, (uint8_t)count);
    io_out8(PIT_CHANNEL0, (uint8_t)(count >> 8));
}

void apic_route_pit(unsigned by_io_apic)
{
    io_out8(PIC1 + 1, by_io_apic ? ALL_PINS_MASKED : (uint8_t)~1u);
    lapic_write(LAPIC_LVT0, by_io_apic ? LAPIC_MASKED : LAPIC_EXTINT);
    io_apic_write(IO_APIC_TABLE + 1, 0); /* to CPU 0 */
    io_apic_write(IO_APIC_TABLE, by_io_apic ? STATE_GUEST_VECTOR_PIT : IO_APIC_MASKED);
}

void apic_interrupt(unsigned cpu, unsigned vector)
{
    struct state_guest_mailbox *mailbox = state_guest_mailbox(cpu);
    enum state_guest_source source = STATE_GUEST_FROM_PIT;
    uint64_t tsc = cpu_tsc();

    if (vector == STATE_GUEST_VECTOR_TIMER) {
        source = STATE_GUEST_FROM_TIMER;
        if (tsc < deadline[cpu])
            mailbox->early++;
        deadline[cpu] = 0;
    } else if (vector == STATE_GUEST_VECTOR_IPI) {
        source = STATE_GUEST_FROM_IPI;
    }
    if (vector == VECTOR_PIC)
        io_out8(PIC1, PIC_EOI);
    else
        lapic_write(LAPIC_EOI, 0);
    __atomic_store_n(&mailbox->interrupts[source], mailbox->interrupts[source] + 1,
                     __ATOMIC_RELEASE);
}
