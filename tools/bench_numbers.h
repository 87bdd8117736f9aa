/* SPDX-License-Identifier: MIT
 *
 * Lists of numbers on a command line: "1,2,4…262144", "7,14..576", "16K,256K". */
#ifndef TOOLS_BENCH_NUMBERS_H
#define TOOLS_BENCH_NUMBERS_H

#include <stdint.h>

#include "vmm/base/error.h"

#define BENCH_NUMBERS_MAX 64

struct bench_numbers {
    unsigned count;
    uint64_t value[BENCH_NUMBERS_MAX];
};

/* Numbers with commas between; each may have a suffix as sizes do. After "…", ".." or "..." stands
 * where doubling ends: "4..20" is 4, 8, 16, 20. Numbers must ascend. -EINVAL with a line. */
int bench_numbers_parse(const char *text, struct bench_numbers *numbers, struct error *err);

#endif
