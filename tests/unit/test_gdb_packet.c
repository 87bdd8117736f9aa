/* SPDX-License-Identifier: MIT
 *
 * Frames of gdb's protocol: there and back, in pieces, and from clients that do not play by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/gdb_packet.h"

static struct gdb_packet_reader reader;

static int begin(void **state)
{
    (void)state;
    memset(&reader, 0, sizeof(reader));
    return 0;
}

/* Feeds all of it, which must be one event with nothing behind. */
static enum gdb_packet_event feed(const char *bytes, size_t count)
{
    size_t used = 0;
    enum gdb_packet_event event = gdb_packet_feed(&reader, (const uint8_t *)bytes, count, &used);

    assert_int_equal(used, count);
    return event;
}

static enum gdb_packet_event feed_text(const char *text)
{
    return feed(text, strlen(text));
}

static void test_body(void **state)
{
    (void)state;
    assert_int_equal(feed_text("$m0,4#fd"), GDB_PACKET_BODY);
    assert_int_equal(reader.bytes, 4);
    assert_string_equal(reader.body, "m0,4");
    assert_int_equal(feed_text("$#00"), GDB_PACKET_BODY);
    assert_int_equal(reader.bytes, 0);
    assert_int_equal(feed_text("$m0,4#FD"), GDB_PACKET_BODY);
}

static void test_between(void **state)
{
    (void)state;
    assert_int_equal(feed_text("+"), GDB_PACKET_ACK);
    assert_int_equal(feed_text("-"), GDB_PACKET_AGAIN);
    assert_int_equal(feed_text("\003"), GDB_PACKET_INTERRUPT);
    assert_int_equal(feed_text("GET / HTTP\r\n#}*"), GDB_PACKET_MORE);
    assert_int_equal(feed_text("$g\003#6a"), GDB_PACKET_BODY); /* in a body it is a byte */
    assert_int_equal(reader.bytes, 2);
}

static void test_byte_by_byte(void **state)
{
    const char *text = "+$qC#b4\003";
    unsigned bodies = 0, acks = 0, interrupts = 0;

    (void)state;
    for (const char *c = text; *c; c++) {
        switch (feed(c, 1)) {
        case GDB_PACKET_BODY:
            bodies++;
            break;
        case GDB_PACKET_ACK:
            acks++;
            break;
        case GDB_PACKET_INTERRUPT:
            interrupts++;
            break;
        default:
            break;
        }
    }
    assert_true(bodies == 1 && acks == 1 && interrupts == 1);
}

/* Several in one read: each is told by itself, and no byte of the next is used. */
static void test_several(void **state)
{
    const char *text = "$?#3f$g#67";
    size_t used;

    (void)state;
    assert_int_equal(gdb_packet_feed(&reader, (const uint8_t *)text, strlen(text), &used),
                     GDB_PACKET_BODY);
    assert_int_equal(used, 5);
    assert_string_equal(reader.body, "?");
    assert_int_equal(feed_text(text + used), GDB_PACKET_BODY);
    assert_string_equal(reader.body, "g");
}

static void test_bad_sums(void **state)
{
    (void)state;
    assert_int_equal(feed_text("$g#68"), GDB_PACKET_BAD);
    assert_int_equal(feed_text("$g#6"), GDB_PACKET_MORE);
    assert_int_equal(feed_text("x"), GDB_PACKET_BAD);
    assert_int_equal(feed_text("$g##7"), GDB_PACKET_BAD);
    assert_int_equal(feed_text("$g#67"), GDB_PACKET_BODY);
}

/* A $ is never in a body: a packet whose end was lost does not take the next one with it. */
static void test_lost_end(void **state)
{
    (void)state;
    assert_int_equal(feed_text("$m123"), GDB_PACKET_MORE);
    assert_int_equal(feed_text("$g#67"), GDB_PACKET_BODY);
    assert_string_equal(reader.body, "g");
}

static enum gdb_packet_event feed_long(size_t count)
{
    char *text = malloc(count + 5);
    enum gdb_packet_event event;

    assert_non_null(text);
    text[0] = '$';
    memset(text + 1, 'a', count);
    (void)snprintf(text + 1 + count, 4, "#%02x", (unsigned)(count * 'a') & 0xff);
    event = feed(text, count + 4);
    free(text);
    return event;
}

static void test_too_long(void **state)
{
    (void)state;
    assert_int_equal(feed_long(GDB_PACKET_BYTES), GDB_PACKET_BODY);
    assert_int_equal(reader.bytes, GDB_PACKET_BYTES);
    assert_int_equal(feed_long(GDB_PACKET_BYTES + 1), GDB_PACKET_TOO_LONG);
    assert_int_equal(feed_long(10 * GDB_PACKET_BYTES), GDB_PACKET_TOO_LONG);
    assert_int_equal(feed_text("$g#67"), GDB_PACKET_BODY);
}

/* Every byte goes over the wire and comes back, and none that means something goes bare. */
static void test_there_and_back(void **state)
{
    static struct gdb_reply reply;
    static uint8_t wire[GDB_PACKET_WIRE_BYTES];
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(reply.body); i++)
        reply.body[i] = (char)(i % 251);
    memset(reply.body + 300, '$', 300);
    reply.bytes = sizeof(reply.body);
    bytes = gdb_packet_encode(&reply, wire);
    assert_true(bytes <= sizeof(wire));
    for (size_t i = 1; i < bytes - 3; i++)
        assert_true(wire[i] != '$' && wire[i] != '#' && wire[i] != '*');
    assert_int_equal(feed((const char *)wire, bytes), GDB_PACKET_BODY);
    assert_int_equal(reader.bytes, reply.bytes);
    assert_memory_equal(reader.body, reply.body, reply.bytes);
    memset(reply.body, '}', sizeof(reply.body)); /* the longest there is */
    assert_int_equal(gdb_packet_encode(&reply, wire), sizeof(wire));
}

/* Noise with the bytes that mean something in it: everything is used, and nothing lies outside. */
static void test_noise(void **state)
{
    static const char special[] = "$#}*+-\003";
    uint64_t random = 1;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t noise[64];
        size_t at = 0;

        for (size_t i = 0; i < sizeof(noise); i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            noise[i] = random >> 62 ? (uint8_t)(random >> 40)
                                    : (uint8_t)special[(random >> 40) % sizeof(special)];
        }
        while (at < sizeof(noise)) {
            size_t used = 0;

            (void)gdb_packet_feed(&reader, noise + at, sizeof(noise) - at, &used);
            assert_true(used > 0 && used <= sizeof(noise) - at);
            assert_true(reader.bytes <= GDB_PACKET_BYTES);
            at += used;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_body, begin),
        cmocka_unit_test_setup(test_between, begin),
        cmocka_unit_test_setup(test_byte_by_byte, begin),
        cmocka_unit_test_setup(test_several, begin),
        cmocka_unit_test_setup(test_bad_sums, begin),
        cmocka_unit_test_setup(test_lost_end, begin),
        cmocka_unit_test_setup(test_too_long, begin),
        cmocka_unit_test_setup(test_there_and_back, begin),
        cmocka_unit_test_setup(test_noise, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
