/* SPDX-License-Identifier: MIT
 *
 * Lines of text as JSON strings, whatever bytes are in them. */
#ifndef TOOLS_JSON_TEXT_H
#define TOOLS_JSON_TEXT_H

#include <jansson.h>

/* A JSON string; a line that is no valid UTF-8 (cut within a character, or quoting a file's name)
 * comes with '?' for every byte beyond ASCII. */
json_t *json_text(const char *line);

#endif
