/* SPDX-License-Identifier: MIT */
#include "tools/json_frame.h"

#include <string.h>

/* One byte inside a string; true where it ends the whole message. */
static bool feed_string(struct json_frame *frame, char byte)
{
    if ((unsigned char)byte < 0x20)
        return true;
    if (frame->escaped)
        frame->escaped = false;
    else if (byte == '\\')
        frame->escaped = true;
    else if (byte == '"')
        frame->in_string = false;
    return false;
}

static bool feed_byte(struct json_frame *frame, char byte)
{
    if (frame->garbage)
        return byte == '\n';
    if (frame->in_string)
        return feed_string(frame, byte);
    switch (byte) {
    case '{':
    case '[':
        frame->depth++;
        return false;
    case '}':
    case ']':
        if (frame->depth)
            return --frame->depth == 0;
        break;
    case '"':
        frame->in_string = frame->depth > 0;
        break;
    default:
        break;
    }
    frame->garbage = frame->depth == 0;
    return false;
}

bool json_frame_feed(struct json_frame *frame, const char *text, size_t bytes, size_t *used)
{
    for (size_t i = 0; i < bytes; i++) {
        if (feed_byte(frame, text[i])) {
            memset(frame, 0, sizeof(*frame));
            *used = i + 1;
            return true;
        }
    }
    *used = bytes;
    return false;
}
