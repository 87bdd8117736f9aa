/* SPDX-License-Identifier: MIT
 *
 * Where a JSON message ends, in a stream that has no other frame. */
#ifndef TOOLS_JSON_FRAME_H
#define TOOLS_JSON_FRAME_H

#include <stdbool.h>
#include <stddef.h>

/* What has been seen of the message that is coming in; all zero at its beginning. */
struct json_frame {
    unsigned depth; /* braces and brackets open */
    bool in_string, escaped;
    bool garbage; /* began with neither: it ends with its line */
};

/* Reads on from `text`; true where the message is complete, and *used bytes of `text` belong to it.
 * A message is an object or array up to its closing bracket, or whatever else there is up to the
 * end of the line; a control character in a string ends it too, since no valid message has one.
 * Whether it is valid is for a parser to say. Resets itself after a message. */
bool json_frame_feed(struct json_frame *frame, const char *text, size_t bytes, size_t *used);

#endif
