/* SPDX-License-Identifier: MIT
 *
 * How much a test on real KVM repeats. */
#ifndef TESTS_KVM_TEST_TIMES_H
#define TESTS_KVM_TEST_TIMES_H

/* How often to do what is repeated `times` times on an ordinary machine: PAGEFERRY_TEST_EFFORT is a
 * percentage for slow ones. At least 2. */
unsigned test_times(unsigned times);

#endif
