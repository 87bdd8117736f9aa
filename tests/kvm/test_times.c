/* SPDX-License-Identifier: MIT */
#include "test_times.h"

#include <stdlib.h>

unsigned test_times(unsigned times)
{
    const char *percent = getenv("PAGEFERRY_TEST_EFFORT");
    unsigned some = percent ? times * (unsigned)strtoul(percent, NULL, 10) / 100 : times;

    return some < 2 ? 2 : some;
}
