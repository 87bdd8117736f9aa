/* SPDX-License-Identifier: MIT */
#include "tools/bench_progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define CLEAR_LINE "\r\033[K"

void bench_progress(const char *format, ...)
{
    char line[160];
    va_list arguments;

    if (!isatty(STDERR_FILENO))
        return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, CLEAR_LINE "%s", line);
}

void bench_progress_end(void)
{
    if (isatty(STDERR_FILENO))
        (void)fputs(CLEAR_LINE, stderr);
}
