/* SPDX-License-Identifier: MIT
 *
 * PIC (Intel 8259A), PIT (Intel 8254) and local APIC (Intel SDM volume 3, chapter 10). */
#include "guest/kernel/interrupt.h"

#include "guest/abi.h"
#include "guest/kernel/layout.h"
#include "guest/kernel/paging.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/clock.h"
#include "guest/lib/cpu.h"
#include "guest/lib/io.h"

#define PIC1            0x20
#define PIC2            0xa0
#define PIC_ICW1        0x11
#define PIC_EOI         0x20
#define PIC_READ_ISR    0x0b
#define PIC_IRQ_CASCADE 2
#define PIC_IRQ_TIMER   0

#define PIT_CHANNEL0 0x40
#define PIT_COMMAND  0x43
#define PIT_RATE     0x34 /* channel 0, both bytes, mode 2 */
#define PIT_ONCE     0x30 /* channel 0, both bytes, mode 0 */
#define PIT_LATCH    0x00

#define LAPIC_EOI       0x0b0
#define LAPIC_SVR       0x0f0
#define LAPIC_ICR_LOW   0x300
#define LAPIC_ICR_HIGH  0x310
#define LAPIC_LVT_TIMER 0x320
#define LAPIC_LVT0      0x350
#define LAPIC_INITIAL   0x380
#define LAPIC_CURRENT   0x390
#define LAPIC_DIVIDE    0x3e0

#define LAPIC_ENABLED  0x100
#define LAPIC_EXTINT   0x700
#define LAPIC_MASKED   0x10000
#define LAPIC_PERIODIC 0x20000
#define LAPIC_DIVIDE_1 0xb
#define LAPIC_PENDING  0x1000

#define UART_IER       1
#define UART_IER_INPUT 0x01
#define UART_LSR       5
#define UART_LSR_DATA  0x01

#define CALIBRATION_NS 2000000

static void lapic_write(unsigned reg, uint32_t value)
{
    mmio_write32(PAGING_LAPIC + reg, value);
}

static uint32_t lapic_read(unsigned reg)
{
    return mmio_read32(PAGING_LAPIC + reg);
}

static void pic_mask(unsigned irq, int masked)
{
    uint8_t mask = io_in8(PIC1 + 1);

    mask = (uint8_t)(masked ? mask | 1u << irq : mask & ~(1u << irq));
    io_out8(PIC1 + 1, mask);
}

void interrupt_init(void)
{
    io_out8(PIC1, PIC_ICW1);
    io_out8(PIC2, PIC_ICW1);
    io_out8(PIC1 + 1, VECTOR_PIC);
    io_out8(PIC2 + 1, VECTOR_PIC + 8);
    io_out8(PIC1 + 1, 1 << PIC_IRQ_CASCADE);
    io_out8(PIC2 + 1, PIC_IRQ_CASCADE);
    io_out8(PIC1 + 1, 1); /* 8086 mode */
    io_out8(PIC2 + 1, 1);
    io_out8(PIC1 + 1, (uint8_t) ~(1u << GUEST_SERIAL_IRQ));
    io_out8(PIC2 + 1, 0xff);
    io_out8(boot_info.serial_port + UART_IER, UART_IER_INPUT);
}

void interrupt_init_cpu(unsigned cpu)
{
    lapic_write(LAPIC_SVR, LAPIC_ENABLED | VECTOR_SPURIOUS);
    lapic_write(LAPIC_LVT_TIMER, LAPIC_MASKED);
    /* How LVT0 is found depends on what ran before: never count on it. */
    lapic_write(LAPIC_LVT0, cpu == 0 ? LAPIC_EXTINT : LAPIC_MASKED);
}

void interrupt_command(unsigned apic_id, uint32_t command)
{
    lapic_write(LAPIC_ICR_HIGH, apic_id << 24);
    lapic_write(LAPIC_ICR_LOW, command);
    while (lapic_read(LAPIC_ICR_LOW) & LAPIC_PENDING)
        cpu_pause();
}

void interrupt_poll_input(void)
{
    struct cpu_input *input = &cpu_input;
    uint16_t port = boot_info.serial_port;

    while (io_in8(port + UART_LSR) & UART_LSR_DATA) {
        uint8_t byte = io_in8(port);

        if (input->head - __atomic_load_n(&input->tail, __ATOMIC_ACQUIRE) >= CPU_INPUT_BYTES) {
            input->dropped++;
            continue;
        }
        input->bytes[input->head % CPU_INPUT_BYTES] = byte;
        __atomic_store_n(&input->head, input->head + 1, __ATOMIC_RELEASE);
    }
}

static void tick(unsigned cpu)
{
    uint64_t *ticks = &cpu_shared[cpu].ticks;

    __atomic_store_n(ticks, *ticks + 1, __ATOMIC_RELAXED);
}

void interrupt_handle(unsigned cpu, unsigned vector)
{
    if (vector == VECTOR_TIMER) {
        tick(cpu);
        lapic_write(LAPIC_EOI, 0);
        return;
    }
    if (vector < VECTOR_PIC || vector >= VECTOR_PIC + 8)
        return; /* spurious ones want no EOI */
    if (vector == VECTOR_PIC + 7) {
        io_out8(PIC1, PIC_READ_ISR);
        if (!(io_in8(PIC1) & 0x80))
            return;
    }
    if (vector == VECTOR_PIC + PIC_IRQ_TIMER)
        tick(cpu);
    if (vector == VECTOR_PIC + GUEST_SERIAL_IRQ) {
        cpu_input.interrupts++;
        interrupt_poll_input();
    }
    io_out8(PIC1, PIC_EOI);
}

/* How far the local APIC timer counts in a second, by the clock. */
static uint64_t lapic_timer_hz(unsigned cpu)
{
    uint64_t start_ns, end_ns;
    uint32_t start, end;

    lapic_write(LAPIC_DIVIDE, LAPIC_DIVIDE_1);
    lapic_write(LAPIC_LVT_TIMER, LAPIC_MASKED);
    lapic_write(LAPIC_INITIAL, UINT32_MAX);
    /* Clock, then counter, both times: what a reading costs cancels out. */
    start_ns = clock_now_ns(cpu);
    start = lapic_read(LAPIC_CURRENT);
    do {
        end_ns = clock_now_ns(cpu);
    } while (end_ns - start_ns < CALIBRATION_NS);
    end = lapic_read(LAPIC_CURRENT);
    lapic_write(LAPIC_INITIAL, 0);
    return (uint64_t)(start - end) * 1000000000 / (end_ns - start_ns);
}

static int64_t set_lapic_timer(unsigned cpu, uint64_t hz)
{
    uint64_t count;

    lapic_write(LAPIC_LVT_TIMER, LAPIC_MASKED);
    lapic_write(LAPIC_INITIAL, 0);
    if (!hz)
        return 0;
    count = lapic_timer_hz(cpu) / hz;
    if (!count || count > UINT32_MAX)
        return -1;
    lapic_write(LAPIC_LVT_TIMER, LAPIC_PERIODIC | VECTOR_TIMER);
    lapic_write(LAPIC_INITIAL, (uint32_t)count);
    return 0;
}

static int64_t set_pit(unsigned cpu, uint64_t hz)
{
    if (cpu != 0)
        return -1;
    pic_mask(PIC_IRQ_TIMER, 1);
    if (!hz)
        return 0;
    if (INTERRUPT_PIT_HZ / hz < 2 || INTERRUPT_PIT_HZ / hz > UINT16_MAX)
        return -1;
    io_out8(PIT_COMMAND, PIT_RATE);
    io_out8(PIT_CHANNEL0, (uint8_t)(INTERRUPT_PIT_HZ / hz));
    io_out8(PIT_CHANNEL0, (uint8_t)(INTERRUPT_PIT_HZ / hz >> 8));
    pic_mask(PIC_IRQ_TIMER, 0);
    return 0;
}

int64_t interrupt_set_timer(unsigned cpu, uint64_t hz, uint64_t timer)
{
    return timer == CPU_TIMER_PIT ? set_pit(cpu, hz) : set_lapic_timer(cpu, hz);
}

void interrupt_pit_start(uint16_t divisor)
{
    io_out8(PIT_COMMAND, PIT_ONCE);
    io_out8(PIT_CHANNEL0, (uint8_t)divisor);
    io_out8(PIT_CHANNEL0, (uint8_t)(divisor >> 8));
}

uint16_t interrupt_pit_read(void)
{
    uint8_t low;

    io_out8(PIT_COMMAND, PIT_LATCH);
    low = io_in8(PIT_CHANNEL0);
    return (uint16_t)(low | io_in8(PIT_CHANNEL0) << 8);
}
