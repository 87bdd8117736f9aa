/* SPDX-License-Identifier: MIT
 *
 * What runs in a Linux guest and keeps an eye on it: memory, clocks, timers, the console. Each part
 * has threads of its own and counts what it did and what it found wrong. */
#ifndef GUEST_LINUX_WORKLOAD_H
#define GUEST_LINUX_WORKLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

struct options {
    uint64_t set_bytes; /* memory that is checked */
    uint64_t rate;      /* pages checked and written a second; 0: flat out */
    unsigned sleepers;  /* threads that sleep and wake */
    unsigned ticks;     /* numbered lines a second */
    unsigned ncpus;     /* found out, not asked for */
    bool memory, clock, echo;
};

/* Set once everybody is to finish. */
extern atomic_bool finishing;

uint64_t now_ns(int clock);
/* Sleeps until the moment of CLOCK_MONOTONIC, or returns earlier to finish. */
void sleep_until(uint64_t ns);
/* Ties the calling thread to a CPU. */
void stay_on(unsigned cpu);

/* One whole line, never torn by another thread's. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As say(), then the guest ends with the code of guest/abi.h; nothing after a fault is trusted. */
void fault(unsigned code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Each starts its threads, and ends them: returns what it did. */
void memory_start(const struct options *options);
uint64_t memory_finish(void);
void clock_start(const struct options *options);
uint64_t clock_finish(void);
void sleepers_start(const struct options *options);
uint64_t sleepers_finish(void);
void ticks_start(const struct options *options);
uint64_t ticks_finish(void);

#endif
