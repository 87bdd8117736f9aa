/* SPDX-License-Identifier: MIT
 *
 * Frames of gdb's remote serial protocol (gdb manual, "Overview" of the protocol): $BODY#SUM, with
 * + and - as acknowledgements and a byte 3 as an interrupt between them. Pure: bytes to packets and
 * back. What comes in is not trusted. */
#ifndef TOOLS_GDB_PACKET_H
#define TOOLS_GDB_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/gdb_text.h"

enum gdb_packet_event {
    GDB_PACKET_MORE,      /* all bytes were read, and nothing is complete */
    GDB_PACKET_BODY,      /* reader->body */
    GDB_PACKET_BAD,       /* the checksum is another */
    GDB_PACKET_TOO_LONG,  /* GDB_PACKET_BYTES are not enough; nothing of it was kept */
    GDB_PACKET_ACK,       /* + */
    GDB_PACKET_AGAIN,     /* - */
    GDB_PACKET_INTERRUPT, /* Ctrl-C */
};

/* All zero at its beginning. */
struct gdb_packet_reader {
    enum gdb_packet_part {
        GDB_PACKET_BETWEEN,
        GDB_PACKET_IN_BODY,
        GDB_PACKET_IN_ESCAPE,
        GDB_PACKET_IN_SUM_HIGH,
        GDB_PACKET_IN_SUM_LOW,
    } part;
    bool too_long, bad;
    uint8_t sum, told;
    size_t bytes;
    char body[GDB_PACKET_BYTES + 1]; /* unescaped, a NUL behind it */
};

/* Reads on from `data` up to the next event; *used bytes of it belong to that. Anything between
 * packets that is none of the above is passed over. */
enum gdb_packet_event gdb_packet_feed(struct gdb_packet_reader *reader, const uint8_t *data,
                                      size_t bytes, size_t *used);

/* A body as it goes over the wire. */
#define GDB_PACKET_WIRE_BYTES (2 * GDB_PACKET_BYTES + 4)

/* Frames and escapes a body of at most GDB_PACKET_BYTES into `wire` (GDB_PACKET_WIRE_BYTES);
 * returns its length. */
size_t gdb_packet_encode(const struct gdb_reply *reply, uint8_t *wire);

#endif
