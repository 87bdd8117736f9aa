/* SPDX-License-Identifier: MIT
 *
 * The workloads, one file each. README.md has their parameters. */
#ifndef GUEST_WORKLOADS_WORKLOADS_H
#define GUEST_WORKLOADS_WORKLOADS_H

#include "guest/user/run.h"

extern const struct workload workload_hello;
extern const struct workload workload_idle;
extern const struct workload workload_dirty;
extern const struct workload workload_memcheck;
extern const struct workload workload_counter;
extern const struct workload workload_stamp;
extern const struct workload workload_echo;
extern const struct workload workload_fb;

#endif
