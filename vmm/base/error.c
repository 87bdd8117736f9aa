/* SPDX-License-Identifier: MIT */
#include "vmm/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
    }
    return -code;
}

void error_prefix(struct error *err, const char *format, ...)
{
    char old[ERROR_TEXT_BYTES];
    va_list args;
    size_t used;

    if (!err)
        return;
    memcpy(old, err->text, sizeof(old));
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
}
