/* SPDX-License-Identifier: MIT
 *
 * What ring 0 and ring 3 of one CPU share, and the calls from ring 3 to ring 0. */
#ifndef GUEST_LIB_CPU_H
#define GUEST_LIB_CPU_H

#include <stdint.h>

#include "guest/abi.h"

#define CPU_INPUT_BYTES 256

/* KVM's clock page (Linux Documentation/virt/kvm/x86/msr.rst, MSR_KVM_SYSTEM_TIME_NEW). */
struct cpu_pvclock {
    uint32_t version; /* odd while the host writes */
    uint32_t pad0;
    uint64_t tsc_timestamp;
    uint64_t system_time;
    uint32_t tsc_to_system_mul;
    int8_t tsc_shift;
    uint8_t flags;
    uint8_t pad[2];
};

struct cpu_shared {
    struct cpu_pvclock pvclock;
    uint64_t ticks; /* timer interrupts; written by ring 0 */
} __attribute__((aligned(64)));

/* Console input: ring 0 adds at head, ring 3 takes at tail, both on CPU 0. Bytes that find it full
 * are counted and dropped. */
struct cpu_input {
    uint8_t bytes[CPU_INPUT_BYTES];
    uint32_t head, tail;
    uint64_t dropped;
    uint64_t interrupts;
};

extern struct cpu_shared cpu_shared[GUEST_MAX_CPUS];
extern struct cpu_input cpu_input;

/* Calls: the number in RAX, arguments in RDI and RSI, result in RAX, by `ud2`: it reaches ring 0
 * on every KVM, where syscall and int n do not. */
enum cpu_call {
    CPU_CALL_WAIT = 1, /* halts until an interrupt; on CPU 0 returns at once if input waits */
    CPU_CALL_TIMER,    /* RDI: ticks a second, 0 = off; RSI: enum cpu_timer. 0, or -1: cannot */
    CPU_CALL_POLL,     /* CPU 0: fetches console input as its interrupt would */
};

enum cpu_timer {
    CPU_TIMER_LAPIC, /* this CPU's own */
    CPU_TIMER_PIT,   /* CPU 0 only */
};

static inline int64_t cpu_call(enum cpu_call call, uint64_t a, uint64_t b)
{
    int64_t result;

    __asm__ volatile("ud2" : "=a"(result) : "a"((uint64_t)call), "D"(a), "S"(b) : "memory");
    return result;
}

#endif
