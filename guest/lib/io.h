/* SPDX-License-Identifier: MIT
 *
 * Single instructions as functions. */
#ifndef GUEST_LIB_IO_H
#define GUEST_LIB_IO_H

#include <stdint.h>

static inline void io_out8(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint8_t io_in8(uint16_t port)
{
    uint8_t value;

    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline void io_out32(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint32_t io_in32(uint16_t port)
{
    uint32_t value;

    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline void io_in32_string(uint16_t port, uint32_t *values, uint64_t count)
{
    __asm__ volatile("rep insl" : "+D"(values), "+c"(count) : "d"(port) : "memory");
}

static inline void io_out32_string(uint16_t port, const uint32_t *values, uint64_t count)
{
    __asm__ volatile("rep outsl" : "+S"(values), "+c"(count) : "d"(port) : "memory");
}

/* Plain moves, so that an emulator has nothing exotic to decode. */
static inline void mmio_write32(uint64_t address, uint32_t value)
{
    __asm__ volatile("movl %0, (%1)" : : "r"(value), "r"(address) : "memory");
}

static inline uint32_t mmio_read32(uint64_t address)
{
    uint32_t value;

    __asm__ volatile("movl (%1), %0" : "=r"(value) : "r"(address) : "memory");
    return value;
}

static inline uint64_t cpu_tsc(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static inline void cpu_pause(void)
{
    __asm__ volatile("pause" : : : "memory");
}

#endif
