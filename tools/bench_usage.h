/* SPDX-License-Identifier: MIT
 *
 * What a process has used. */
#ifndef TOOLS_BENCH_USAGE_H
#define TOOLS_BENCH_USAGE_H

#include <stdint.h>
#include <sys/types.h>

#include "vmm/base/error.h"

struct bench_usage {
    uint64_t peak_bytes; /* VmHWM: the most that was resident */
    uint64_t anon_bytes; /* resident now, of private memory */
    uint64_t file_bytes; /* … of files: mostly the program itself */
    uint64_t shmem_bytes;
    uint64_t cpu_ns; /* of all threads, those that ended too */
};

/* 0 or -errno with a line. */
int bench_usage_of(pid_t pid, struct bench_usage *usage, struct error *err);
/* The part that reads text of /proc/PID/status: fields that are not there are 0. */
void bench_usage_parse(const char *status, struct bench_usage *usage);

#endif
