/* SPDX-License-Identifier: MIT
 *
 * Where every exception and interrupt arrives: calls from ring 3 are served, interrupts handled,
 * anything else is dumped and ends the guest. */
#include "guest/kernel/trap.h"

#include <stdbool.h>

#include "guest/abi.h"
#include "guest/kernel/interrupt.h"
#include "guest/kernel/layout.h"
#include "guest/kernel/segments.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"

#define TRAP_DOUBLE_FAULT   8
#define TRAP_INVALID_OPCODE 6
#define GATE_INTERRUPT      0x8e00
#define UD2_OPCODE          0x0b0f

struct gate {
    uint16_t offset_low, selector, ist_and_type, offset_middle;
    uint32_t offset_high, reserved;
};

extern const char trap_stubs[]; /* 16 bytes each */

static struct gate idt[VECTOR_COUNT] __attribute__((aligned(16)));

void trap_init(void)
{
    for (unsigned vector = 0; vector < VECTOR_COUNT; vector++) {
        uint64_t stub = (uint64_t)trap_stubs + 16 * vector;

        idt[vector].offset_low = (uint16_t)stub;
        idt[vector].selector = SELECTOR_KCODE;
        idt[vector].ist_and_type = GATE_INTERRUPT | (vector == TRAP_DOUBLE_FAULT ? 1 : 0);
        idt[vector].offset_middle = (uint16_t)(stub >> 16);
        idt[vector].offset_high = (uint32_t)(stub >> 32);
    }
}

void trap_load(void)
{
    struct {
        uint16_t limit;
        uint64_t base;
    } __attribute__((packed)) pointer = {sizeof(idt) - 1, (uint64_t)idt};

    __asm__ volatile("lidt %0" : : "m"(pointer));
}

static const char *trap_name(uint64_t vector)
{
    static const char *const names[] = {"#DE", "#DB", "NMI", "#BP", "#OF", "#BR", "#UD",
                                        "#NM", "#DF", "9",   "#TS", "#NP", "#SS", "#GP",
                                        "#PF", "15",  "#MF", "#AC", "#MC", "#XM"};

    return vector < sizeof(names) / sizeof(names[0]) ? names[vector] : "?";
}

static void dump(const struct trap_frame *f, unsigned cpu) __attribute__((noreturn));
static void dump(const struct trap_frame *f, unsigned cpu)
{
    uint64_t cr2, cr3;

    __asm__ volatile("movq %%cr2, %0" : "=r"(cr2));
    __asm__ volatile("movq %%cr3, %0" : "=r"(cr3));
    console_break_lock();
    print("\nexception %s (vector %lu, error %lx) on cpu %u in ring %lu\n", trap_name(f->vector),
          f->vector, f->error, cpu, f->cs & 3);
    print("rip %016lx cs %02lx rflags %08lx rsp %016lx ss %02lx\n", f->rip, f->cs, f->rflags,
          f->rsp, f->ss);
    print("rax %016lx rbx %016lx rcx %016lx rdx %016lx\n", f->rax, f->rbx, f->rcx, f->rdx);
    print("rsi %016lx rdi %016lx rbp %016lx r8  %016lx\n", f->rsi, f->rdi, f->rbp, f->r8);
    print("r9  %016lx r10 %016lx r11 %016lx r12 %016lx\n", f->r9, f->r10, f->r11, f->r12);
    print("r13 %016lx r14 %016lx r15 %016lx\n", f->r13, f->r14, f->r15);
    print("cr2 %016lx cr3 %016lx\n", cr2, cr3);
    machine_exit(GUEST_EXIT_EXCEPTION);
}

/* Input that came before the interrupts are let in again is seen here; input that comes after it
 * ends the halt, since `sti` lets the next instruction through first. */
static void wait_for_interrupt(unsigned cpu)
{
    if (cpu == 0 && cpu_input.head != __atomic_load_n(&cpu_input.tail, __ATOMIC_ACQUIRE))
        return;
    __asm__ volatile("sti; hlt; cli" : : : "memory");
}

static bool serve_call(struct trap_frame *f, unsigned cpu)
{
    if ((f->cs & 3) != 3 || *(const uint16_t *)f->rip != UD2_OPCODE)
        return false;
    switch (f->rax) {
    case CPU_CALL_WAIT:
        wait_for_interrupt(cpu);
        f->rax = 0;
        break;
    case CPU_CALL_TIMER:
        f->rax = (uint64_t)interrupt_set_timer(cpu, f->rdi, f->rsi);
        break;
    case CPU_CALL_POLL:
        if (cpu == 0)
            interrupt_poll_input();
        f->rax = 0;
        break;
    default:
        return false;
    }
    f->rip += 2;
    return true;
}

void trap_dispatch(struct trap_frame *frame)
{
    unsigned cpu = segments_this_cpu();

    if (frame->vector >= VECTOR_PIC) {
        interrupt_handle(cpu, (unsigned)frame->vector);
        return;
    }
    if (frame->vector == TRAP_INVALID_OPCODE && serve_call(frame, cpu))
        return;
    dump(frame, cpu);
}
