/* SPDX-License-Identifier: MIT
 *
 * Pausing and resuming at any moment, whatever the guest does and whoever reads its console. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_guest.h"
#include "test_times.h"
#include "vmm/base/size.h"
#include "vmm/device/serial.h"
#include "vmm/x86/registers.h"

#define MEMORY_BYTES (64 * SIZE_MIB)
#define PAUSES       200
#define TYPE_AHEAD   128

static struct kvm kvm;
static struct test_console console;

static int reset_console(void **state)
{
    (void)state;
    memset(&console, 0, sizeof(console));
    return 0;
}

static struct machine *start(unsigned ncpus, const char *bootargs)
{
    struct machine *machine = test_guest_create(&kvm, ncpus, MEMORY_BYTES, bootargs, true);
    struct error err = {0};

    assert_int_equal(machine_start(machine, &err), 0);
    return machine;
}

static void pause_often(unsigned ncpus, const char *bootargs)
{
    struct machine *machine = start(ncpus, bootargs);
    const unsigned pauses = test_times(PAUSES);
    struct error err = {0};

    for (unsigned i = 0; i < pauses; i++) {
        if (machine_pause(machine, &err))
            fail_msg("%s", err.text);
        assert_int_equal(machine_pause(machine, &err), 0); /* once more is fine */
        assert_int_equal(machine_resume(machine, &err), 0);
    }
    test_guest_wait_beats(machine, 2);
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

static void test_memcheck(void **state)
{
    (void)state;
    pause_often(2, "memcheck set=16M");
}

static void test_dirty(void **state)
{
    (void)state;
    pause_often(1, "dirty set=16M");
}

/* From the first instruction on: early boot, application processors waiting for SIPI. */
static void test_early(void **state)
{
    struct machine *machine = start(2, "hello");
    struct error err = {0};
    int ret = 0;

    (void)state;
    while (machine_state(machine) != MACHINE_STOPPED) {
        ret = machine_pause(machine, &err);
        if (!ret)
            assert_int_equal(machine_resume(machine, &err), 0);
    }
    assert_true(ret == 0 || ret == -ESHUTDOWN);
    assert_int_equal(test_guest_wait_exit(machine, &console)->code, GUEST_EXIT_OK);
    assert_non_null(strstr(console.text, "hello"));
    machine_destroy(machine);
}

static void test_stands_still(void **state)
{
    struct machine *machine = start(2, "memcheck set=1M");
    const volatile struct guest_stats *stats = test_guest_stats(machine);
    char first[REGISTERS_TEXT_BYTES], second[REGISTERS_TEXT_BYTES];
    struct error err = {0};
    uint64_t beats[2];

    (void)state;
    test_guest_wait_beats(machine, 2);
    assert_int_equal(machine_registers(machine, 0, first, sizeof(first), &err), -EBUSY);
    assert_int_equal(machine_pause(machine, &err), 0);
    beats[0] = stats->cpu[0].heartbeat;
    beats[1] = stats->cpu[1].heartbeat;
    assert_int_equal(machine_registers(machine, 1, first, sizeof(first), &err), 0);
    assert_non_null(strstr(first, "RIP="));
    for (unsigned i = 0; i < 3; i++) { /* saving is repeatable and changes nothing */
        size_t bytes;
        void *fdt;

        assert_int_equal(machine_save(machine, &fdt, &bytes, &err), 0);
        free(fdt);
    }
    assert_int_equal(machine_registers(machine, 1, second, sizeof(second), &err), 0);
    assert_string_equal(first, second);
    assert_true(beats[0] == stats->cpu[0].heartbeat && beats[1] == stats->cpu[1].heartbeat);
    assert_int_equal(machine_registers(machine, 2, first, sizeof(first), &err), -EINVAL);
    assert_int_equal(machine_resume(machine, &err), 0);
    test_guest_wait_beats(machine, 2);
    test_guest_finish(machine, &console);
    machine_destroy(machine);
}

static void test_states(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "idle", true);
    struct error err = {0};
    size_t bytes;
    void *fdt;

    (void)state;
    assert_int_equal(machine_pause(machine, &err), -EBUSY);
    assert_int_equal(machine_resume(machine, &err), -EBUSY);
    assert_int_equal(machine_save(machine, &fdt, &bytes, &err), -EBUSY);
    assert_int_equal(machine_mark_moved(machine, &err), -EBUSY);
    assert_int_equal(machine_start(machine, &err), 0);
    assert_int_equal(machine_start(machine, &err), -EBUSY);
    assert_int_equal(machine_save(machine, &fdt, &bytes, &err), -EBUSY);
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    assert_int_equal(machine_pause(machine, &err), 0);
    assert_int_equal(machine_console_give(machine, (const uint8_t *)"q", 1), 0);
    assert_int_equal(machine_mark_moved(machine, &err), 0);
    assert_int_equal(machine_resume(machine, &err), -ESHUTDOWN);
    assert_int_equal(machine_start(machine, &err), -ESHUTDOWN);
    assert_int_equal(machine_pause(machine, &err), -ESHUTDOWN);
    assert_int_equal(machine_state(machine), MACHINE_MOVED);
    machine_destroy(machine);
}

/* A moved machine keeps its last words. */
static void test_release(void **state)
{
    struct machine *machine = start(1, "idle");
    char text[REGISTERS_TEXT_BYTES];
    struct error err = {0};
    size_t bytes;

    (void)state;
    while (!console.bytes) /* some output, of which a part is taken later */
        console.bytes = machine_console_take(machine, (uint8_t *)console.text, 1);
    test_guest_wait_beats(machine, 1);
    assert_int_equal(machine_pause(machine, &err), 0);
    assert_int_equal(machine_mark_moved(machine, &err), 0);
    machine_release(machine);
    machine_release(machine);
    assert_int_equal(machine_registers(machine, 0, text, sizeof(text), &err), -ESHUTDOWN);
    assert_non_null(machine_fdt(machine, &bytes));
    assert_true(machine_console_take(machine, (uint8_t *)console.text, sizeof(console.text)) > 0);
    machine_destroy(machine);
}

/* Types `bytes` times an x. The guest's own buffer is short: it is never left with more than
 * TYPE_AHEAD that it did not echo yet, for as long as there is room for its echo. */
static void type(struct machine *machine, size_t bytes)
{
    const volatile struct guest_stats *stats = test_guest_stats(machine);
    uint8_t line[SERIAL_FIFO_BYTES];

    memset(line, 'x', sizeof(line));
    for (size_t typed = 0; typed < bytes;) {
        size_t part = bytes - typed < sizeof(line) ? bytes - typed : sizeof(line);
        size_t given = machine_console_give(machine, line, part);

        typed += given;
        if (!given)
            test_guest_wait_event(machine, &console);
        while (typed < SERIAL_RING_BYTES - 2 * SERIAL_FIFO_BYTES &&
               stats->cpu[0].work + TYPE_AHEAD < typed)
            test_guest_wait_beats(machine, 1);
    }
}

/* Until the guest's heart has stood still for a while: it waits for the transmitter. Leaving too
 * early would make the test weaker, not wrong. */
static void wait_blocked(struct machine *machine)
{
    const volatile struct guest_stats *stats = test_guest_stats(machine);
    const struct timespec nap = {.tv_nsec = 2000000};
    uint64_t last = stats->cpu[0].heartbeat;

    for (unsigned still = 0; still < 50; still++) {
        nanosleep(&nap, NULL);
        if (stats->cpu[0].heartbeat != last)
            still = 0;
        last = stats->cpu[0].heartbeat;
    }
}

static size_t count_x(void)
{
    size_t count = 0;

    for (size_t i = 0; i < console.bytes; i++)
        count += console.text[i] == 'x';
    return count;
}

/* Nobody reads the console: the guest waits for the full ring, and can be paused and moved all the
 * same. Not one byte is lost. */
static void test_console_unread(void **state)
{
    const size_t typed = SERIAL_RING_BYTES + 64; /* the guest holds a few by itself */
    const unsigned pauses = test_times(PAUSES);
    struct machine *machine;
    struct error err = {0};

    (void)state;
    if (pauses < PAUSES)
        skip(); /* a few hundred thousand exits before it begins */
    machine = start(1, "echo hz=2000");
    assert_true(test_guest_wait_text(machine, &console, "ready"));
    type(machine, typed);
    wait_blocked(machine);
    for (unsigned i = 0; i < pauses; i++) {
        assert_int_equal(machine_pause(machine, &err), 0);
        if (i == pauses / 2)
            machine = test_guest_hop(&kvm, machine, &console);
        assert_int_equal(machine_resume(machine, &err), 0);
    }
    type(machine, 1);
    while (count_x() < typed + 1)
        assert_true(test_guest_wait_more(machine, &console));
    assert_int_equal(machine_console_give(machine, (const uint8_t *)"\n", 1), 1);
    test_guest_finish(machine, &console);
    assert_int_equal(count_x(), typed + 1);
    machine_destroy(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memcheck, reset_console),
        cmocka_unit_test_setup(test_dirty, reset_console),
        cmocka_unit_test_setup(test_early, reset_console),
        cmocka_unit_test_setup(test_stands_still, reset_console),
        cmocka_unit_test_setup(test_states, reset_console),
        cmocka_unit_test_setup(test_release, reset_console),
        cmocka_unit_test_setup(test_console_unread, reset_console),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
