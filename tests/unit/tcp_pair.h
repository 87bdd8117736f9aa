/* SPDX-License-Identifier: MIT
 *
 * Two ends of a TCP connection over loopback. */
#ifndef TESTS_UNIT_TCP_PAIR_H
#define TESTS_UNIT_TCP_PAIR_H

/* The caller closes both. A failure fails the test. */
void tcp_pair(int *fds);

#endif
