/* SPDX-License-Identifier: MIT
 *
 * The text inside gdb's packets: hexadecimal numbers and bytes, read with a cursor that cannot run
 * past the end, and replies that cannot grow beyond a packet. */
#ifndef TOOLS_GDB_TEXT_H
#define TOOLS_GDB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest body of a packet, either way; told to the client as PacketSize. Room for all registers,
 * and a page in hexadecimal. */
#define GDB_PACKET_BYTES 8448

struct gdb_reply {
    size_t bytes;
    bool overflowed; /* something did not fit and was left out */
    char body[GDB_PACKET_BYTES];
};

struct gdb_cursor {
    const char *at, *end;
};

/* -1: none. */
int gdb_hex_digit(char c);

/* Each takes what it names off the front and says whether it was there. A number has 1 to 16
 * digits. */
bool gdb_take_char(struct gdb_cursor *cursor, char wanted);
bool gdb_take_word(struct gdb_cursor *cursor, const char *word);
bool gdb_take_number(struct gdb_cursor *cursor, uint64_t *value);
/* Exactly `bytes` bytes, two digits each; false where some are missing. */
bool gdb_take_bytes(struct gdb_cursor *cursor, void *bytes, size_t count);
static inline size_t gdb_left(const struct gdb_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

void gdb_put_text(struct gdb_reply *reply, const char *text);
void gdb_put_raw(struct gdb_reply *reply, const char *text, size_t bytes);
void gdb_put_number(struct gdb_reply *reply, uint64_t value);
void gdb_put_bytes(struct gdb_reply *reply, const void *bytes, size_t count);

#endif
