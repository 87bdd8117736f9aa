/* SPDX-License-Identifier: MIT */
#include "tools/json_text.h"

#include <stdio.h>

#include "vmm/base/error.h"

json_t *json_text(const char *line)
{
    char plain[ERROR_TEXT_BYTES];
    json_t *text = json_string(line);

    if (text)
        return text;
    (void)snprintf(plain, sizeof(plain), "%s", line);
    for (char *at = plain; *at; at++)
        *at = (char)((unsigned char)*at < 0x80 ? *at : '?');
    return json_string(plain);
}
