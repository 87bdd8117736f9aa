/* SPDX-License-Identifier: MIT
 *
 * Processes of a bench that are copies of it, and the loopback connection between them. None
 * outlives the bench. For a caller with one thread. */
#ifndef TOOLS_BENCH_CHILD_H
#define TOOLS_BENCH_CHILD_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vmm/base/error.h"

struct bench_child {
    pid_t pid;
    int fd; /* what it has to tell */
    size_t result_bytes;
};

struct bench_listener {
    int fd;
    struct sockaddr_in address;
};

/* Runs main(opaque, result) in a new process; result has result_bytes, zeroed, at most
 * BENCH_CHILD_RESULT_MAX. 0 or -errno with a line. */
#define BENCH_CHILD_RESULT_MAX 4096
typedef void bench_child_main(void *opaque, void *result);
int bench_child_start(struct bench_child *child, bench_child_main *main, void *opaque,
                      size_t result_bytes, struct error *err);
/* Waits for its end and takes the result. -ECHILD where it ended without one; -EINTR where the
 * bench is to end. The process is gone in every case. */
int bench_child_finish(struct bench_child *child, void *result, struct error *err);
void bench_child_kill(struct bench_child *child);

/* From now on Ctrl-C and its like end nothing by themselves: whoever waits asks whether one came,
 * and returns -EINTR. */
void bench_catch_signals(void);
bool bench_interrupted(void);

/* Called first in every process of a bench: it ends with the process `parent`. */
void bench_die_with(pid_t parent);

/* A TCP listener on the loopback; the caller closes fd. */
int bench_listen(struct bench_listener *listener, struct error *err);
/* A stream, or -errno. */
int bench_accept(const struct bench_listener *listener);
int bench_connect(const struct bench_listener *listener);
/* The one that accepted tells the other to begin. 0 or -errno. */
int bench_tell_go(int fd);
int bench_await_go(int fd);

/* Words number first / 8… of one sequence in which no two are equal. */
void bench_fill(uint8_t *memory, uint64_t bytes, uint64_t first);

#endif
