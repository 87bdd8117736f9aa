/* SPDX-License-Identifier: MIT
 *
 * The loaders with images that can be loaded, the start_info they leave, and flat images. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "guest/abi.h"
#include "tests/unit/loader_image.h"
#include "vmm/base/bitmap.h"
#include "vmm/machine_tree.h"

#define PAGE        MEMORY_PAGE_BYTES
#define START_MAGIC 0x336ec578u

static uint64_t read_le(const struct memory *memory, gpa_t gpa, unsigned bytes)
{
    uint64_t value = 0;

    assert_int_equal(memory_read(memory, gpa, &value, bytes), 0);
    return value;
}

static void check_start_info(const struct memory *memory, gpa_t info, bool with_tree, gpa_t rsdp)
{
    static const uint64_t expected[][3] = {{0, 0xa0000, 1},
                                           {0xa0000, 0x60000, 2},
                                           {0x100000, LOW_PAGES * PAGE - 0x100000, 1},
                                           {0x100000000ull, 16 * PAGE, 1}};
    gpa_t memmap = read_le(memory, info + 40, 8);
    gpa_t modules = read_le(memory, info + 16, 8);
    char text[64] = "";

    assert_int_equal(read_le(memory, info, 4), START_MAGIC);
    assert_int_equal(read_le(memory, info + 4, 4), 1);
    assert_int_equal(read_le(memory, info + 8, 4), 0);
    assert_int_equal(read_le(memory, info + 12, 4), with_tree ? 2 : 0);
    assert_int_equal(read_le(memory, info + 32, 8), rsdp);
    assert_int_equal(memory_read(memory, read_le(memory, info + 24, 8), text, 6), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(read_le(memory, info + 48, 4), 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(read_le(memory, memmap + i * 24, 8), expected[i][0]);
        assert_int_equal(read_le(memory, memmap + i * 24 + 8, 8), expected[i][1]);
        assert_int_equal(read_le(memory, memmap + i * 24 + 16, 8), expected[i][2]);
    }
    if (!with_tree)
        return;
    assert_int_equal(read_le(memory, modules + 8, 8), 0);
    assert_int_equal(read_le(memory, modules + 32 + 8, 8), 4);
    assert_int_equal(read_le(memory, read_le(memory, modules + 32, 8), 4), 0x65657274); /* "tree" */
    assert_int_equal(
        memory_read(memory, read_le(memory, modules + 32 + 16, 8), text, sizeof(GUEST_FDT_MODULE)),
        0);
    assert_string_equal(text, GUEST_FDT_MODULE);
}

static void loads_a_good_image(void **state)
{
    struct error err = {""};
    struct loader_request request;
    struct loader_entry entry;
    struct memory memory;
    struct image image;
    uint64_t bss = LOAD_GPA / PAGE + 1;

    (void)state;
    loader_image_make(&image);
    loader_image_memory(&memory);
    request = loader_image_request(&image, sizeof(image));
    if (loader_load(&memory, &request, &entry, &err))
        fail_msg("%s", err.text);
    assert_int_equal(entry.mode, LOADER_PROTECTED);
    assert_int_equal(entry.address, LOAD_GPA + 8);
    assert_memory_equal(memory_at(&memory, LOAD_GPA, TEXT_BYTES), image.text, TEXT_BYTES);
    check_start_info(&memory, entry.info, true, LOADER_ACPI_GPA);
    assert_memory_equal(memory_at(&memory, LOADER_ACPI_GPA, 8), "RSD PTR ", 8);
    /* Written pages are marked; BSS is not written. */
    assert_true(bitmap_test(memory.region[0].vmm_dirty, LOAD_GPA / PAGE));
    assert_true(bitmap_test(memory.region[0].vmm_dirty, entry.info / PAGE));
    assert_false(bitmap_test(memory.region[0].vmm_dirty, bss));
    memory_destroy(&memory);
}

static void gives_no_tree_unasked(void **state)
{
    struct error err = {""};
    struct loader_request request;
    struct loader_entry entry;
    struct memory memory;
    struct image image;

    (void)state;
    loader_image_make(&image);
    image.note.ours.n_type = 77;
    /* Where the tree would lie is free for an image that gets none. */
    image.header.e_phnum = 3;
    image.program[2].p_paddr = 0x30000;
    loader_image_memory(&memory);
    request = loader_image_request(&image, sizeof(image));
    if (loader_load(&memory, &request, &entry, &err))
        fail_msg("%s", err.text);
    check_start_info(&memory, entry.info, false, LOADER_ACPI_GPA);
    memory_destroy(&memory);
}

static void takes_unsorted_headers_and_long_notes(void **state)
{
    struct {
        struct image image;
        Elf64_Nhdr note;
        char name[8];
        uint64_t entry;
    } wide;
    struct image image;
    struct error err = {""};
    struct memory memory;
    Elf64_Phdr swap;

    (void)state;
    loader_image_make(&image);
    image.header.e_phnum = 3;
    swap = image.program[0];
    image.program[0] = image.program[2];
    image.program[2] = swap;
    loader_image_memory(&memory);
    assert_int_equal(loader_image_load(&memory, &image, sizeof(image), &err), 0);
    memory_destroy(&memory);

    /* An 8-byte value in a segment of 8-byte alignment: 12 + 4 bytes reach the next multiple. */
    memset(&wide, 0, sizeof(wide));
    loader_image_make(&wide.image);
    wide.image.program[1].p_offset = sizeof(struct image);
    wide.image.program[1].p_filesz = sizeof(Elf64_Nhdr) + 4 + 8;
    wide.image.program[1].p_align = 8;
    wide.note = (Elf64_Nhdr){4, 8, 18};
    memcpy(wide.name, "Xen\0\x08\0\x10\0", 8); /* name, then 0x100008 */
    loader_image_memory(&memory);
    assert_int_equal(loader_image_load(&memory, &wide, sizeof(wide), &err), 0);
    memory_destroy(&memory);
}

static void refuses_long_command_lines(void **state)
{
    char line[MACHINE_BOOTARGS_MAX + 2];
    struct error err = {""};
    struct loader_request request;
    struct loader_entry entry;
    struct memory memory;
    struct image image;

    (void)state;
    loader_image_make(&image);
    loader_image_memory(&memory);
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    request = loader_image_request(&image, sizeof(image));
    request.bootargs = line;
    assert_int_equal(loader_load(&memory, &request, &entry, &err), -E2BIG);
    assert_true(loader_image_untouched(&memory));
    line[MACHINE_BOOTARGS_MAX] = '\0';
    assert_int_equal(loader_load(&memory, &request, &entry, &err), 0);
    memory_destroy(&memory);
}

static int load_flat(struct memory *memory, const void *code, size_t bytes, uint64_t address,
                     const char *bootargs, struct loader_entry *entry, struct error *err)
{
    struct loader_request request = loader_image_request(code, bytes);

    request.load_address = address;
    request.bootargs = bootargs;
    return loader_load(memory, &request, entry, err);
}

static void loads_flat_images(void **state)
{
    static const uint8_t code[] = {0xb0, 0x01, 0xe6, 0xf4, 0xf4};
    struct error err = {""};
    struct loader_entry entry;
    struct memory memory;

    (void)state;
    loader_image_memory(&memory);
    assert_int_equal(load_flat(&memory, code, sizeof(code), 0x7c00, "", &entry, &err), 0);
    assert_int_equal(entry.mode, LOADER_REAL_MODE);
    assert_int_equal(entry.address, 0x7c00);
    assert_int_equal(entry.info, 0);
    assert_memory_equal(memory_at(&memory, 0x7c00, 5), code, 5);
    assert_int_equal(load_flat(&memory, code, sizeof(code), 0x100000, "hello", &entry, &err), 0);
    assert_int_equal(entry.mode, LOADER_PROTECTED);
    check_start_info(&memory, entry.info, false, 0);
    assert_int_equal(load_flat(&memory, code, sizeof(code), LOW_PAGES * PAGE - 5, "", &entry, &err),
                     0);
    memory_destroy(&memory);
}

static void refuses_bad_flat_images(void **state)
{
    static const struct {
        uint64_t address;
        size_t bytes;
        const char *bootargs;
        int code;
    } cases[] = {
        {0x7c00, 0, "", -ENOEXEC},
        {0x7c00, 5, "hello", -EINVAL},
        {LOW_PAGES * PAGE - 4, 5, "", -ENOMEM},
        {0xd0000000, 5, "", -ENOMEM},
        {0x100000000ull, 5, "", -ENOMEM},
        {0x100000000ull - 2, 5, "", -ENOMEM},
        {UINT64_MAX - 2, 5, "", -ENOMEM},
    };
    static const uint8_t code[8] = {0};
    struct loader_entry entry;
    struct memory memory;

    (void)state;
    loader_image_memory(&memory);
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        struct error err = {""};
        assert_int_equal(load_flat(&memory, code, cases[n].bytes, cases[n].address,
                                   cases[n].bootargs, &entry, &err),
                         cases[n].code);
        assert_int_equal(strncmp(err.text, NAME ": ", 7), 0);
        assert_true(loader_image_untouched(&memory));
    }
    memory_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_a_good_image),
        cmocka_unit_test(gives_no_tree_unasked),
        cmocka_unit_test(takes_unsorted_headers_and_long_notes),
        cmocka_unit_test(refuses_long_command_lines),
        cmocka_unit_test(loads_flat_images),
        cmocka_unit_test(refuses_bad_flat_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
