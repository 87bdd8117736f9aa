/* SPDX-License-Identifier: MIT
 *
 * A machine from creation to its end, on real KVM. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_guest.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (64 * SIZE_MIB)

static struct kvm kvm;
static struct test_console console;

static int reset_console(void **state)
{
    (void)state;
    memset(&console, 0, sizeof(console));
    return 0;
}

static void test_hello(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "hello", true);
    const struct machine_exit *end;
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    end = test_guest_wait_exit(machine, &console);
    if (end->kind != MACHINE_EXIT_GUEST || end->code != GUEST_EXIT_OK)
        fail_msg("code %u, %s; it said: %s", end->code, end->reason, console.text);
    assert_non_null(strstr(console.text, "hello"));
    assert_int_equal(machine_pause(machine, &err), -ESHUTDOWN);
    assert_int_equal(machine_resume(machine, &err), -ESHUTDOWN);
    machine_destroy(machine);
}

/* Bare machine code instead of an image. */
static struct machine *start_code(unsigned ncpus, uint64_t address, const void *code, size_t bytes)
{
    struct machine *machine = test_guest_create(&kvm, ncpus, MEMORY_BYTES, "", false);
    const struct machine_boot boot = {.kernel = {"code", code, bytes}, .load_address = address};
    struct error err = {0};

    if (machine_load(machine, &boot, &err))
        fail_msg("%s", err.text);
    assert_int_equal(machine_start(machine, &err), 0);
    return machine;
}

#define REAL_MODE 0x7000
#define PROTECTED 0x100000
#define START(ncpus, address, ...)                             \
    start_code(ncpus, address, (const uint8_t[]){__VA_ARGS__}, \
               sizeof((const uint8_t[]){__VA_ARGS__}))

static void expect_end(struct machine *machine, enum machine_exit_kind kind, uint32_t code,
                       const char *reason)
{
    const struct machine_exit *end = test_guest_wait_exit(machine, &console);
    char text[2048];
    struct error err = {0};

    assert_int_equal(end->kind, kind);
    assert_int_equal(end->code, code);
    if (!strstr(end->reason, reason))
        fail_msg("\"%s\" does not say \"%s\"", end->reason, reason);
    assert_int_equal(machine_registers(machine, 0, text, sizeof(text), &err), 0);
    machine_destroy(machine);
}

static void test_exit_widths(void **state)
{
    (void)state;
    expect_end(START(1, REAL_MODE, 0xb0, 0x07, 0xe6, 0xf4), /* mov al, 7; out 0xf4, al */
               MACHINE_EXIT_GUEST, 7, "");
    expect_end(START(1, REAL_MODE, 0xb8, 0x34, 0x12, 0xe7, 0xf4), /* … ax */
               MACHINE_EXIT_GUEST, 0x1234, "");
    expect_end(START(1, REAL_MODE, 0x66, 0xb8, 0x78, 0x56, 0x34, 0x12, 0x66, 0xe7, 0xf4), /* eax */
               MACHINE_EXIT_GUEST, 0x12345678, "");
    expect_end(START(1, PROTECTED, 0xb8, 0x78, 0x56, 0x34, 0x12, 0xe7, 0xf4), /* 32-bit code */
               MACHINE_EXIT_GUEST, 0x12345678, "");
}

static void test_triple_fault(void **state)
{
    (void)state;
    /* A selector outside the GDT, and no IDT to handle the #GP: mov eax, 0x28; mov ds, ax */
    expect_end(START(1, PROTECTED, 0xb8, 0x28, 0x00, 0x00, 0x00, 0x8e, 0xd8, 0xf4),
               MACHINE_EXIT_SHUTDOWN, 0, "triple fault");
}

static void test_resets(void **state)
{
    (void)state;
    expect_end(START(1, REAL_MODE, 0xb0, 0xfe, 0xe6, 0x64, 0xf4), /* mov al, 0xfe; out 0x64, al */
               MACHINE_EXIT_RESET, 0, "keyboard controller");
    expect_end(START(1, REAL_MODE, 0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee, 0xf4), /* out 0xcf9, 6 */
               MACHINE_EXIT_RESET, 0, "0xcf9");
}

static void test_poweroff(void **state)
{
    (void)state;
    /* S4, S5 without SLP_EN, then S5: mov dx, 0x600; mov al, …; out dx, al */
    expect_end(START(1, REAL_MODE, 0xba, 0x00, 0x06, 0xb0, 0x30, 0xee, 0xb0, 0x14, 0xee, 0xb0, 0x34,
                     0xee, 0xf4),
               MACHINE_EXIT_POWEROFF, 0, "powered itself off");
    expect_end(START(1, REAL_MODE, 0xba, 0x00, 0x06, 0xb0, 0x30, 0xee, 0xb0, 0x14, 0xee, 0xb0, 0x07,
                     0xe6, 0xf4), /* … out 0xf4, 7 */
               MACHINE_EXIT_GUEST, 7, "");
}

/* Executing what is not memory: KVM cannot, and says so. */
static void test_emulation_failure(void **state)
{
    (void)state;
    expect_end(START(1, PROTECTED, 0xb8, 0x00, 0x00, 0x00, 0xd8, 0xff, 0xe0), /* jmp 0xd8000000 */
               MACHINE_EXIT_ERROR, 0, "rip 0xd8000000");
}

static void test_unmapped(void **state)
{
    /* in al, 0x99; mov ah, [0xd8000000]; out 0xf4, ax */
    struct machine *machine =
        START(1, PROTECTED, 0xe4, 0x99, 0x8a, 0x25, 0, 0, 0, 0xd8, 0x66, 0xe7, 0xf4);

    (void)state;
    (void)test_guest_wait_exit(machine, &console);
    assert_int_equal(machine_unmapped_accesses(machine), 2);
    expect_end(machine, MACHINE_EXIT_GUEST, 0xffff, "");
}

/* A guest that halts for ever can still be paused, resumed and destroyed; so can one that spins. */
static void test_stuck(void **state)
{
    struct machine *halted = START(1, REAL_MODE, 0xfa, 0xf4, 0xeb, 0xfd); /* cli; hlt; jmp -3 */
    struct machine *spinning = START(1, REAL_MODE, 0xfa, 0xeb, 0xfe);
    struct error err = {0};

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(machine_pause(halted, &err), 0);
        assert_int_equal(machine_pause(spinning, &err), 0);
        assert_int_equal(machine_resume(halted, &err), 0);
        assert_int_equal(machine_resume(spinning, &err), 0);
    }
    machine_destroy(halted);
    machine_destroy(spinning);
}

static void test_not_loaded(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "", false);
    const struct machine_boot boot = {.kernel = {"rubbish", "rubbish", 7},
                                      .load_address = MACHINE_LOAD_BY_IMAGE};
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), -EINVAL);
    assert_int_equal(machine_load(machine, &boot, &err), -ENOEXEC);
    assert_non_null(strstr(err.text, "rubbish"));
    machine_destroy(machine);
    machine_destroy(NULL);
}

static unsigned entries(const char *directory)
{
    DIR *open_directory = opendir(directory);
    unsigned count = 0;

    assert_non_null(open_directory);
    while (readdir(open_directory))
        count++;
    closedir(open_directory);
    return count;
}

static void test_leaks(void **state)
{
    unsigned fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    struct error err = {0};

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct machine *machine = test_guest_create(&kvm, 2, MEMORY_BYTES, "idle", true);

        if (i % 4 > 0)
            assert_int_equal(machine_start(machine, &err), 0);
        if (i % 4 > 1)
            assert_int_equal(machine_pause(machine, &err), 0);
        if (i % 4 > 2) {
            assert_int_equal(machine_mark_moved(machine, &err), 0);
            machine_release(machine);
        }
        machine_destroy(machine);
    }
    assert_int_equal(entries("/proc/self/fd"), fds);
    assert_int_equal(entries("/proc/self/task"), threads);
}

static void test_check(void **state)
{
    struct machine_description *description = calloc(1, sizeof(*description));
    struct error err = {0};

    (void)state;
    assert_non_null(description);
    description->memory_bytes = MEMORY_BYTES;
    description->ncpus = 1;
    assert_int_equal(machine_host_cpu(&kvm, "host", description, &err), 0);
    assert_int_equal(machine_check(&kvm, description, &err), 0);
    description->memory_bytes = 1ull << 50;
    assert_int_equal(machine_check(&kvm, description, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "memory"));
    description->memory_bytes = MEMORY_BYTES;
    if (description->tsc_khz && !kvm.tsc_control) {
        description->tsc_khz *= 2;
        assert_int_equal(machine_check(&kvm, description, &err), -ENOTSUP);
        assert_non_null(strstr(err.text, "TSC"));
    }
    free(description);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_hello, reset_console),
        cmocka_unit_test_setup(test_exit_widths, reset_console),
        cmocka_unit_test_setup(test_triple_fault, reset_console),
        cmocka_unit_test_setup(test_resets, reset_console),
        cmocka_unit_test_setup(test_poweroff, reset_console),
        cmocka_unit_test_setup(test_emulation_failure, reset_console),
        cmocka_unit_test_setup(test_unmapped, reset_console),
        cmocka_unit_test_setup(test_stuck, reset_console),
        cmocka_unit_test_setup(test_not_loaded, reset_console),
        cmocka_unit_test_setup(test_leaks, reset_console),
        cmocka_unit_test_setup(test_check, reset_console),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return failed;
}
