/* SPDX-License-Identifier: MIT
 *
 * The UART, register by register, as a driver sees it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/device/serial.h"

#define PORT 0x3f8

/* Registers and bits, spelt out here from the data sheet rather than taken from the code. */
enum { RBR = 0, THR = 0, IER = 1, IIR = 2, FCR = 2, LCR = 3, MCR = 4, LSR = 5, MSR = 6, SCR = 7 };

struct board {
    struct bus bus;
    struct serial serial;
    bool line;
    unsigned raised; /* times the line went up */
    unsigned notified;
};

static void set_line(void *opaque, unsigned irq, bool level)
{
    struct board *board = opaque;

    assert_int_equal(irq, 4);
    assert_true(level != board->line);
    board->raised += level;
    board->line = level;
}

static void notify(void *opaque)
{
    struct board *board = opaque;

    board->notified++;
}

static struct board *board_create(void)
{
    struct board *board = calloc(1, sizeof(*board));
    const struct irq_line line = {.set = set_line, .opaque = board, .irq = 4};
    const struct serial_events events = {.notify = notify, .opaque = board};
    struct error err;

    assert_non_null(board);
    bus_init(&board->bus);
    assert_int_equal(serial_init(&board->serial, &board->bus, PORT, &line, &events, &err), 0);
    return board;
}

static void board_destroy(struct board *board)
{
    serial_destroy(&board->serial);
    free(board);
}

static uint8_t in(struct board *board, unsigned reg)
{
    uint8_t value;

    bus_access(&board->bus, BUS_PORT, PORT + reg, &value, 1, false);
    return value;
}

static void out(struct board *board, unsigned reg, uint8_t value)
{
    bus_access(&board->bus, BUS_PORT, PORT + reg, &value, 1, true);
}

static void give(struct board *board, const char *text, size_t expected)
{
    assert_int_equal(serial_give(&board->serial, (const uint8_t *)text, strlen(text)), expected);
}

static void test_reset_values(void **state)
{
    struct board *board = board_create();

    (void)state;
    assert_int_equal(in(board, LSR), 0x60);
    assert_int_equal(in(board, IIR), 0x01);
    assert_int_equal(in(board, IER), 0x00);
    assert_int_equal(in(board, MSR), 0xb0);
    board_destroy(board);
}

static void test_plain_registers(void **state)
{
    struct board *board = board_create();

    (void)state;
    out(board, SCR, 0xa5);
    assert_int_equal(in(board, SCR), 0xa5);
    out(board, LCR, 0x83); /* divisor latch */
    out(board, 0, 0x34);
    out(board, 1, 0x12);
    assert_int_equal(in(board, 0), 0x34);
    assert_int_equal(in(board, 1), 0x12);
    out(board, LCR, 0x03);
    assert_int_equal(in(board, LCR), 0x03);
    assert_int_equal(in(board, IER), 0x00); /* the latch was not the enable register */
    out(board, IER, 0xff);
    assert_int_equal(in(board, IER), 0x0f);
    out(board, MCR, 0xff);
    assert_int_equal(in(board, MCR), 0x1f);
    board_destroy(board);
}

static void test_wide_access(void **state)
{
    struct board *board = board_create();
    uint8_t data[4] = {0};

    (void)state;
    out(board, SCR, 0x5a);
    bus_access(&board->bus, BUS_PORT, PORT + SCR, data, 4, false);
    assert_memory_equal(data, "\x5a\xff\xff\xff", 4); /* past the window: all ones */
    data[0] = 'a';                                    /* THR and IER in one access */
    data[1] = 'b';
    bus_access(&board->bus, BUS_PORT, PORT, data, 2, true);
    assert_int_equal(in(board, IER), 'b' & 0x0f);
    assert_int_equal(serial_take(&board->serial, data, sizeof(data)), 1);
    assert_int_equal(data[0], 'a');
    board_destroy(board);
}

static void test_transmit(void **state)
{
    struct board *board = board_create();
    uint8_t data[8];

    (void)state;
    out(board, THR, 'x');
    out(board, THR, 'y');
    assert_int_equal(board->notified, 1); /* empty -> not empty only */
    assert_int_equal(serial_take(&board->serial, data, sizeof(data)), 2);
    assert_memory_equal(data, "xy", 2);
    assert_int_equal(serial_take(&board->serial, data, sizeof(data)), 0);
    out(board, THR, 'z');
    assert_int_equal(board->notified, 2);
    board_destroy(board);
}

static void test_transmit_interrupt(void **state)
{
    struct board *board = board_create();

    (void)state;
    out(board, IER, 0x02); /* enabling with an empty transmitter interrupts at once */
    assert_true(board->line);
    assert_int_equal(in(board, IIR), 0x02);
    assert_false(board->line); /* reading IIR acknowledges */
    assert_int_equal(in(board, IIR), 0x01);
    out(board, THR, 'a');
    assert_true(board->line);
    out(board, THR, 'b'); /* one more edge for a PIC in edge mode */
    assert_int_equal(board->raised, 3);
    out(board, IER, 0x00);
    assert_false(board->line);
    board_destroy(board);
}

/* A driver that writes 16 bytes whenever THRE is set loses none, and finds THRE clear at the end.
 */
static size_t fill(struct board *board, size_t written)
{
    while (in(board, LSR) & 0x20) {
        for (unsigned i = 0; i < 16; i++, written++)
            out(board, THR, (uint8_t)(written % 251));
    }
    return written;
}

static void test_ring_full(void **state)
{
    struct board *board = board_create();
    uint8_t *data = malloc(SERIAL_RING_BYTES);
    size_t written;

    (void)state;
    assert_non_null(data);
    out(board, FCR, 0x01);
    written = fill(board, 0);
    assert_int_equal(written, SERIAL_RING_BYTES);
    assert_int_equal(in(board, LSR) & 0x60, 0);
    out(board, IER, 0x02); /* not empty: no interrupt yet */
    assert_false(board->line);
    assert_int_equal(serial_take(&board->serial, data, 15), 15);
    assert_int_equal(in(board, LSR) & 0x20, 0); /* room for 15: a FIFO does not fit */
    assert_int_equal(serial_take(&board->serial, data + 15, 1), 1);
    assert_true(board->line); /* now it does, and the driver is told */
    assert_int_equal(in(board, LSR) & 0x60, 0x60);
    written = fill(board, written);
    assert_int_equal(written, SERIAL_RING_BYTES + 16);
    assert_int_equal(serial_take(&board->serial, data, SERIAL_RING_BYTES), SERIAL_RING_BYTES);
    for (size_t i = 0; i < SERIAL_RING_BYTES; i++)
        assert_int_equal(data[i], (i + 16) % 251);
    free(data);
    board_destroy(board);
}

static void test_receive(void **state)
{
    struct board *board = board_create();

    (void)state;
    out(board, FCR, 0xc1); /* FIFO, trigger at 14 */
    out(board, IER, 0x01);
    give(board, "abc", 3);
    assert_true(board->line);
    assert_int_equal(in(board, IIR), 0xcc); /* below the trigger: time-out */
    give(board, "defghijklmn", 11);
    assert_int_equal(in(board, IIR), 0xc4);
    give(board, "opqr", 2); /* 16 fit */
    assert_int_equal(board->notified, 0);
    assert_int_equal(in(board, RBR), 'a');
    assert_int_equal(board->notified, 1); /* room again */
    for (int c = 'b'; c <= 'p'; c++) {
        assert_int_equal(in(board, LSR), 0x61);
        assert_int_equal(in(board, RBR), c);
    }
    assert_int_equal(board->notified, 1);
    assert_int_equal(in(board, LSR), 0x60);
    assert_int_equal(in(board, RBR), 0);
    assert_false(board->line);
    board_destroy(board);
}

static void test_receive_without_fifo(void **state)
{
    struct board *board = board_create();

    (void)state;
    out(board, IER, 0x01);
    give(board, "ab", 1);
    assert_int_equal(in(board, IIR), 0x04);
    assert_int_equal(in(board, RBR), 'a');
    give(board, "b", 1);
    out(board, FCR, 0x01); /* toggling the FIFO empties it */
    assert_int_equal(in(board, LSR), 0x60);
    give(board, "c", 1);
    out(board, FCR, 0x03); /* so does clearing it */
    assert_int_equal(in(board, LSR), 0x60);
    board_destroy(board);
}

/* Input that came while interrupts were off is signalled when they are switched on. */
static void test_room(void **state)
{
    struct board *board = board_create();

    (void)state;
    assert_int_equal(serial_room(&board->serial), 1);
    out(board, IIR, 0x01); /* FIFO on */
    assert_int_equal(serial_room(&board->serial), 16);
    give(board, "fifteen letters", 15);
    assert_int_equal(serial_room(&board->serial), 1);
    give(board, "!", 1);
    assert_int_equal(board->notified, 0); /* nobody was told that there is none */
    assert_int_equal(serial_room(&board->serial), 0);
    (void)in(board, 0);
    assert_int_equal(board->notified, 1);
    assert_int_equal(serial_room(&board->serial), 1);
    out(board, MCR, 0x10); /* loopback */
    assert_int_equal(serial_room(&board->serial), 0);
    out(board, MCR, 0x00);
    assert_int_equal(board->notified, 2);
    board_destroy(board);
}

static void test_late_enable(void **state)
{
    struct board *board = board_create();

    (void)state;
    give(board, "a", 1);
    assert_false(board->line);
    out(board, IER, 0x01);
    assert_true(board->line);
    board_destroy(board);
}

static void test_priorities(void **state)
{
    struct board *board = board_create();

    (void)state;
    out(board, FCR, 0x01);
    out(board, MCR, 0x10); /* loopback: our own outputs are the modem's lines */
    (void)in(board, MSR);
    out(board, MCR, 0x13);
    for (unsigned i = 0; i < 17; i++) /* one more than fits: overrun */
        out(board, THR, (uint8_t)i);
    out(board, IER, 0x0f);
    assert_int_equal(in(board, IIR), 0xc6); /* line status first */
    assert_int_equal(in(board, LSR), 0x63);
    assert_int_equal(in(board, LSR), 0x61); /* reading cleared the overrun */
    assert_int_equal(in(board, IIR), 0xc4); /* then received data */
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(in(board, RBR), i);
    assert_int_equal(in(board, IIR), 0xc2); /* then the transmitter; reading acknowledges */
    assert_int_equal(in(board, IIR), 0xc0); /* then the modem: not acknowledged by reading IIR */
    assert_true(board->line);
    assert_int_equal(in(board, MSR), 0x33); /* CTS, DSR and their deltas */
    assert_int_equal(in(board, MSR), 0x30);
    assert_int_equal(in(board, IIR), 0xc1);
    assert_false(board->line);
    board_destroy(board);
}

static void test_loopback(void **state)
{
    struct board *board = board_create();
    uint8_t data[4];

    (void)state;
    out(board, MCR, 0x1f);
    assert_int_equal(in(board, MSR) & 0xf0, 0xf0);
    out(board, MCR, 0x14); /* OUT1 is RI */
    assert_int_equal(in(board, MSR) & 0xf0, 0x40);
    out(board, MCR, 0x10);
    assert_int_equal(in(board, MSR), 0x04); /* trailing edge of RI */
    out(board, THR, 'q');
    assert_int_equal(in(board, RBR), 'q');
    assert_int_equal(serial_take(&board->serial, data, sizeof(data)), 0); /* nothing got out */
    give(board, "in", 0);                                                 /* nor in */
    out(board, MCR, 0x00);
    assert_int_equal(board->notified, 1);
    give(board, "i", 1);
    board_destroy(board);
}

static void move(struct board *from, struct board *to)
{
    struct state_writer writer;
    struct state_reader root;
    struct error err = {0};
    size_t bytes;
    void *fdt;

    assert_int_equal(state_writer_begin(&writer, "test", &err), 0);
    serial_save(&from->serial, &writer);
    assert_int_equal(state_writer_finish(&writer, &fdt, &bytes, &err), 0);
    assert_int_equal(state_open(&root, fdt, bytes, "test", &err), 0);
    if (serial_load(&to->serial, &root, &err))
        fail_msg("%s", err.text);
    assert_int_equal(state_close(&root, &err), 0);
    free(fdt);
}

static void test_state(void **state)
{
    struct board *from = board_create(), *to = board_create();

    (void)state;
    out(from, LCR, 0x80);
    out(from, 0, 0x01);
    out(from, 1, 0x02);
    out(from, LCR, 0x1b);
    out(from, SCR, 0x77);
    out(from, FCR, 0x81);
    give(from, "0123456789", 10);
    assert_int_equal(in(from, RBR), '0'); /* the FIFO's head is not at 0 any more */
    out(from, MCR, 0x0b);
    out(from, IER, 0x05);
    move(from, to);
    assert_true(to->line);
    assert_int_equal(in(to, LCR), 0x1b);
    assert_int_equal(in(to, SCR), 0x77);
    assert_int_equal(in(to, MCR), 0x0b);
    assert_int_equal(in(to, IER), 0x05);
    assert_int_equal(in(to, IIR), 0xc4); /* nine bytes, trigger at eight */
    for (int c = '1'; c <= '9'; c++)
        assert_int_equal(in(to, RBR), c);
    assert_false(to->line);
    out(to, LCR, 0x80);
    assert_int_equal(in(to, 0), 0x01);
    assert_int_equal(in(to, 1), 0x02);
    board_destroy(from);
    board_destroy(to);
}

static void test_state_transmit_interrupt(void **state)
{
    struct board *from = board_create(), *to = board_create();

    (void)state;
    out(from, IER, 0x02);
    assert_true(from->line);
    move(from, to);
    assert_true(to->line);
    assert_int_equal(in(to, IIR), 0x02);
    assert_false(to->line);
    move(to, from); /* acknowledged: gone */
    assert_false(from->line);
    board_destroy(from);
    board_destroy(to);
}

/* The ring stays behind, and with it what the guest waited for: it must hear of the empty one. */
static void test_state_ring_full(void **state)
{
    struct board *from = board_create(), *to = board_create();
    uint8_t byte;

    (void)state;
    out(from, FCR, 0x01);
    out(from, IER, 0x02);
    (void)fill(from, 0);
    (void)in(from, IIR);
    assert_false(from->line);
    move(from, to);
    assert_true(to->line);
    assert_int_equal(in(to, LSR), 0x60);
    assert_int_equal(serial_take(&to->serial, &byte, 1), 0);
    assert_int_equal(serial_take(&from->serial, &byte, 1), 1); /* takeable where it was made */
    board_destroy(from);
    board_destroy(to);
}

static void test_state_refused(void **state)
{
    struct board *board = board_create();
    struct state_writer writer;
    struct state_reader root;
    struct error err = {0};
    size_t bytes;
    void *fdt;

    (void)state;
    board->serial.mcr = 0x80; /* no guest can set this bit */
    assert_int_equal(state_writer_begin(&writer, "test", &err), 0);
    serial_save(&board->serial, &writer);
    assert_int_equal(state_writer_finish(&writer, &fdt, &bytes, &err), 0);
    assert_int_equal(state_open(&root, fdt, bytes, "test", &err), 0);
    board->serial.mcr = 0;
    assert_int_equal(serial_load(&board->serial, &root, &err), -EPROTO);
    assert_non_null(strstr(err.text, "/serial"));
    assert_int_equal(in(board, MCR), 0); /* nothing was taken over */
    free(fdt);
    board_destroy(board);
}

static void test_detached(void **state)
{
    struct board *board = board_create();

    (void)state;
    serial_detach(&board->serial);
    out(board, IER, 0x02);
    assert_false(board->line);
    board_destroy(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reset_values),
        cmocka_unit_test(test_plain_registers),
        cmocka_unit_test(test_wide_access),
        cmocka_unit_test(test_transmit),
        cmocka_unit_test(test_transmit_interrupt),
        cmocka_unit_test(test_ring_full),
        cmocka_unit_test(test_receive),
        cmocka_unit_test(test_receive_without_fifo),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_late_enable),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_state_transmit_interrupt),
        cmocka_unit_test(test_state_ring_full),
        cmocka_unit_test(test_state_refused),
        cmocka_unit_test(test_detached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
