/* SPDX-License-Identifier: MIT
 *
 * Where ring 3 begins. */
#ifndef GUEST_USER_USER_H
#define GUEST_USER_USER_H

#include <stdint.h>

/* Every CPU's ring-3 program: CPU 0 reads the command line and leads, the others follow. */
void user_main(unsigned cpu) __attribute__((noreturn));

/* Address just above the ring-3 stack of a CPU. */
uint64_t user_stack_top(unsigned cpu);

#endif
