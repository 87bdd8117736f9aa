/* SPDX-License-Identifier: MIT */
#include "tools/gdb_packet.h"

#include <string.h>

#define BEGIN     '$'
#define END       '#'
#define ESCAPE    '}'
#define REPEAT    '*' /* means something in what we send only */
#define ESCAPED   0x20
#define INTERRUPT 0x03

static void begin(struct gdb_packet_reader *reader)
{
    reader->part = GDB_PACKET_IN_BODY;
    reader->too_long = reader->bad = false;
    reader->sum = 0;
    reader->bytes = 0;
}

static void keep(struct gdb_packet_reader *reader, uint8_t byte)
{
    if (reader->bytes < GDB_PACKET_BYTES)
        reader->body[reader->bytes++] = (char)byte;
    else
        reader->too_long = true;
}

static enum gdb_packet_event between(struct gdb_packet_reader *reader, uint8_t byte)
{
    switch (byte) {
    case BEGIN:
        begin(reader);
        return GDB_PACKET_MORE;
    case '+':
        return GDB_PACKET_ACK;
    case '-':
        return GDB_PACKET_AGAIN;
    case INTERRUPT:
        return GDB_PACKET_INTERRUPT;
    default:
        return GDB_PACKET_MORE;
    }
}

static void take_sum(struct gdb_packet_reader *reader, uint8_t byte)
{
    int digit = gdb_hex_digit((char)byte);

    reader->bad |= digit < 0;
    reader->told = (uint8_t)(reader->told << 4 | (digit & 0xf));
}

static enum gdb_packet_event end(struct gdb_packet_reader *reader)
{
    reader->part = GDB_PACKET_BETWEEN;
    reader->body[reader->bytes] = '\0';
    if (reader->bad || reader->told != reader->sum)
        return GDB_PACKET_BAD;
    return reader->too_long ? GDB_PACKET_TOO_LONG : GDB_PACKET_BODY;
}

static enum gdb_packet_event feed_byte(struct gdb_packet_reader *reader, uint8_t byte)
{
    switch (reader->part) {
    case GDB_PACKET_BETWEEN:
        return between(reader, byte);
    case GDB_PACKET_IN_BODY:
        if (byte == BEGIN) { /* never in a body: the end of the one before was lost */
            begin(reader);
            return GDB_PACKET_MORE;
        }
        if (byte == END) {
            reader->part = GDB_PACKET_IN_SUM_HIGH;
            return GDB_PACKET_MORE;
        }
        reader->sum = (uint8_t)(reader->sum + byte);
        if (byte == ESCAPE)
            reader->part = GDB_PACKET_IN_ESCAPE;
        else
            keep(reader, byte);
        return GDB_PACKET_MORE;
    case GDB_PACKET_IN_ESCAPE:
        reader->sum = (uint8_t)(reader->sum + byte);
        reader->part = GDB_PACKET_IN_BODY;
        keep(reader, byte ^ ESCAPED);
        return GDB_PACKET_MORE;
    case GDB_PACKET_IN_SUM_HIGH:
        take_sum(reader, byte);
        reader->part = GDB_PACKET_IN_SUM_LOW;
        return GDB_PACKET_MORE;
    case GDB_PACKET_IN_SUM_LOW:
        take_sum(reader, byte);
        break;
    }
    return end(reader);
}

enum gdb_packet_event gdb_packet_feed(struct gdb_packet_reader *reader, const uint8_t *data,
                                      size_t bytes, size_t *used)
{
    for (size_t i = 0; i < bytes; i++) {
        enum gdb_packet_event event = feed_byte(reader, data[i]);

        if (event != GDB_PACKET_MORE) {
            *used = i + 1;
            return event;
        }
    }
    *used = bytes;
    return GDB_PACKET_MORE;
}

size_t gdb_packet_encode(const struct gdb_reply *reply, uint8_t *wire)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    uint8_t sum = 0;

    wire[at++] = BEGIN;
    for (size_t i = 0; i < reply->bytes; i++) {
        uint8_t byte = (uint8_t)reply->body[i];

        if (byte == BEGIN || byte == END || byte == ESCAPE || byte == REPEAT) {
            wire[at++] = ESCAPE;
            sum = (uint8_t)(sum + ESCAPE);
            byte ^= ESCAPED;
        }
        wire[at++] = byte;
        sum = (uint8_t)(sum + byte);
    }
    wire[at++] = END;
    wire[at++] = (uint8_t)digits[sum >> 4];
    wire[at++] = (uint8_t)digits[sum & 0xf];
    return at;
}
