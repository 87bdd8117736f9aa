/* SPDX-License-Identifier: MIT */
#include "vmm/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LOG_LINE_BYTES 1024

static void log_line(const char *level, const char *format, va_list args)
{
    char line[LOG_LINE_BYTES];
    int used = snprintf(line, sizeof(line), "pageferry: %s", level);
    int more = vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
    size_t length = (size_t)used + (more > 0 ? (size_t)more : 0);

    if (length > sizeof(line) - 1)
        length = sizeof(line) - 1;
    line[length++] = '\n'; /* takes the terminator's place */
    /* There is nowhere to report that stderr is gone. */
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}

void log_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line("", format, args);
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line("warning: ", format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line("error: ", format, args);
    va_end(args);
}
