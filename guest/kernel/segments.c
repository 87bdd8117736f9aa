/* SPDX-License-Identifier: MIT
 *
 * GDT, task state segments and kernel stacks. Layouts: Intel SDM volume 3, 3.4.5 (segment
 * descriptors), 7.7 (64-bit TSS). */
#include "guest/kernel/segments.h"

#include "guest/abi.h"
#include "guest/kernel/layout.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/string.h"

#define BITMAP_BYTES 8192
#define FAULT_STACK  4096

struct tss {
    uint32_t reserved0;
    uint32_t rsp0[2];
    uint32_t rsp12[4];
    uint32_t reserved1[2];
    uint32_t ist[14];
    uint32_t reserved2[2];
    uint16_t reserved3;
    uint16_t bitmap_offset;
    uint8_t bitmap[BITMAP_BYTES + 1]; /* one byte of ones must follow the last port */
    uint8_t padding[3];
} __attribute__((packed, aligned(8)));

struct descriptor_pointer {
    uint16_t limit;
    uint64_t base;
} __attribute__((packed));

/* start.S begins on the first of these; smp.c hands out the others. */
uint8_t kernel_stacks[GUEST_MAX_CPUS][KERNEL_STACK_BYTES] __attribute__((aligned(8192)));
_Static_assert(KERNEL_STACK_BYTES == 8192, "alignment of kernel_stacks");

/* A double fault gets a stack that is good whatever happened to the other. */
static uint8_t fault_stacks[GUEST_MAX_CPUS][FAULT_STACK] __attribute__((aligned(16)));
static struct tss tss[GUEST_MAX_CPUS];
static uint64_t gdt[SELECTOR_TSS / 8 + 2 * GUEST_MAX_CPUS] __attribute__((aligned(16)));

static void tss_open_ports(struct tss *t, unsigned first, unsigned count)
{
    for (unsigned port = first; port < first + count && port < 65536; port++)
        t->bitmap[port / 8] = (uint8_t)(t->bitmap[port / 8] & ~(1u << port % 8));
}

/* Bytes of bitmap that cover every open port, so that a boot need not fill 8 KiB per CPU. */
static unsigned bitmap_used(void)
{
    unsigned last = boot_info.serial_port + 8u;

    if (last < boot_info.exit_port + 4u)
        last = boot_info.exit_port + 4u;
    if (boot_info.probe_port && last < (unsigned)boot_info.probe_port + PROBE_PORT_BYTES)
        last = (unsigned)boot_info.probe_port + PROBE_PORT_BYTES;
    last = (last + 7) / 8;
    return last < BITMAP_BYTES ? last : BITMAP_BYTES;
}

static void tss_init(unsigned cpu)
{
    struct tss *t = &tss[cpu];
    unsigned used = bitmap_used();
    uint64_t stack = segments_stack_top(cpu);
    uint64_t fault_stack = (uint64_t)fault_stacks[cpu] + FAULT_STACK;
    uint64_t base = (uint64_t)t;
    uint64_t limit = offsetof(struct tss, bitmap) + used;
    uint64_t *descriptor = &gdt[SELECTOR_TSS / 8 + 2 * cpu];

    t->rsp0[0] = (uint32_t)stack;
    t->rsp0[1] = (uint32_t)(stack >> 32);
    t->ist[0] = (uint32_t)fault_stack;
    t->ist[1] = (uint32_t)(fault_stack >> 32);
    t->bitmap_offset = offsetof(struct tss, bitmap);
    memset(t->bitmap, 0xff, used + 1);
    tss_open_ports(t, boot_info.exit_port, 4);
    tss_open_ports(t, boot_info.serial_port, 8);
    if (boot_info.probe_port)
        tss_open_ports(t, boot_info.probe_port, PROBE_PORT_BYTES);

    descriptor[0] = (limit & 0xffff) | (base & 0xffffff) << 16 | 0x89ull << 40 |
                    (limit >> 16 & 0xf) << 48 | (base >> 24 & 0xff) << 56;
    descriptor[1] = base >> 32;
}

void segments_init(void)
{
    gdt[SELECTOR_KCODE / 8] = 0x00af9b000000ffffull;
    gdt[SELECTOR_KDATA / 8] = 0x00cf93000000ffffull;
    gdt[SELECTOR_UDATA / 8] = 0x00cff3000000ffffull;
    gdt[SELECTOR_UCODE / 8] = 0x00affb000000ffffull;
    for (unsigned cpu = 0; cpu < boot_info.ncpus; cpu++)
        tss_init(cpu);
}

void segments_load(unsigned cpu)
{
    struct descriptor_pointer pointer = {sizeof(gdt) - 1, (uint64_t)gdt};

    __asm__ volatile("lgdt %0" : : "m"(pointer) : "memory");
    __asm__ volatile("movl %0, %%ds; movl %0, %%es; movl %0, %%ss" : : "r"(SELECTOR_KDATA));
    /* Code keeps SELECTOR_KCODE, whose descriptor is the same in the boot GDT. */
    __asm__ volatile("ltr %w0" : : "r"(SELECTOR_TSS + 16 * cpu) : "memory");
}

unsigned segments_this_cpu(void)
{
    uint64_t offset = (uint64_t)__builtin_frame_address(0) - (uint64_t)kernel_stacks;

    /* On a fault stack the answer is of no use but must be in range. */
    return offset < sizeof(kernel_stacks) ? (unsigned)(offset / KERNEL_STACK_BYTES) : 0;
}

uint64_t segments_stack_top(unsigned cpu)
{
    return (uint64_t)kernel_stacks[cpu] + KERNEL_STACK_BYTES;
}
