/* SPDX-License-Identifier: MIT */
#include "tools/gdb_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_DIGITS 16

int gdb_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool gdb_take_char(struct gdb_cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

bool gdb_take_word(struct gdb_cursor *cursor, const char *word)
{
    size_t length = strlen(word);

    if (gdb_left(cursor) < length || memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

bool gdb_take_number(struct gdb_cursor *cursor, uint64_t *value)
{
    unsigned ndigits = 0;

    *value = 0;
    while (cursor->at < cursor->end && gdb_hex_digit(*cursor->at) >= 0) {
        if (++ndigits > NUMBER_DIGITS)
            return false;
        *value = *value << 4 | (unsigned)gdb_hex_digit(*cursor->at++);
    }
    return ndigits > 0;
}

bool gdb_take_bytes(struct gdb_cursor *cursor, void *bytes, size_t count)
{
    uint8_t *to = bytes;

    if (gdb_left(cursor) / 2 < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        int high = gdb_hex_digit(cursor->at[0]), low = gdb_hex_digit(cursor->at[1]);

        if (high < 0 || low < 0)
            return false;
        to[i] = (uint8_t)(high << 4 | low);
        cursor->at += 2;
    }
    return true;
}

void gdb_put_raw(struct gdb_reply *reply, const char *text, size_t bytes)
{
    if (bytes > sizeof(reply->body) - reply->bytes) {
        reply->overflowed = true;
        return;
    }
    memcpy(reply->body + reply->bytes, text, bytes);
    reply->bytes += bytes;
}

void gdb_put_text(struct gdb_reply *reply, const char *text)
{
    gdb_put_raw(reply, text, strlen(text));
}

void gdb_put_number(struct gdb_reply *reply, uint64_t value)
{
    char digits[NUMBER_DIGITS + 1];

    (void)snprintf(digits, sizeof(digits), "%" PRIx64, value);
    gdb_put_text(reply, digits);
}

void gdb_put_bytes(struct gdb_reply *reply, const void *bytes, size_t count)
{
    const uint8_t *from = bytes;

    for (size_t i = 0; i < count; i++) {
        char digits[3];

        (void)snprintf(digits, sizeof(digits), "%02x", from[i]);
        gdb_put_raw(reply, digits, 2);
    }
}
