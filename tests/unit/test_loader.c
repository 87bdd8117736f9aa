/* SPDX-License-Identifier: MIT
 *
 * The loaders against good images and against every kind of bad one: refused with a line that names
 * the fault, and without having written a byte. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guest/abi.h"
#include "vmm/base/bitmap.h"
#include "vmm/loader.h"
#include "vmm/machine_tree.h"
#include "vmm/memory.h"

#define PAGE        MEMORY_PAGE_BYTES
#define LOAD_GPA    0x100000u
#define BSS_BYTES   0x3000u
#define TEXT_BYTES  64u
#define LOW_PAGES   1024u /* 4 MiB */
#define NAME        "image"
#define START_MAGIC 0x336ec578u

/* A small ELF file, laid out so that a test can bend any field. */
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr program[4]; /* load, note, second load, unused */
    struct {
        Elf64_Nhdr xen;
        char xen_name[4];
        uint32_t entry;
        Elf64_Nhdr ours;
        char our_name[12];
    } note;
    uint8_t text[TEXT_BYTES];
};

static void make_image(struct image *i)
{
    memset(i, 0, sizeof(*i));
    memcpy(i->header.e_ident, ELFMAG, SELFMAG);
    i->header.e_ident[EI_CLASS] = ELFCLASS64;
    i->header.e_ident[EI_DATA] = ELFDATA2LSB;
    i->header.e_type = ET_EXEC;
    i->header.e_machine = EM_X86_64;
    i->header.e_phoff = offsetof(struct image, program);
    i->header.e_phentsize = sizeof(Elf64_Phdr);
    i->header.e_phnum = 2;
    i->program[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_offset = offsetof(struct image, text),
                                 .p_paddr = LOAD_GPA,
                                 .p_filesz = TEXT_BYTES,
                                 .p_memsz = BSS_BYTES};
    i->program[1] = (Elf64_Phdr){.p_type = PT_NOTE,
                                 .p_offset = offsetof(struct image, note),
                                 .p_filesz = sizeof(i->note),
                                 .p_memsz = sizeof(i->note),
                                 .p_align = 4};
    i->program[2] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_offset = offsetof(struct image, text),
                                 .p_paddr = LOAD_GPA + 0x10000,
                                 .p_filesz = 16,
                                 .p_memsz = 16};
    i->note.xen = (Elf64_Nhdr){4, 4, 18};
    memcpy(i->note.xen_name, "Xen", 4);
    i->note.entry = LOAD_GPA + 8;
    i->note.ours = (Elf64_Nhdr){sizeof(GUEST_NOTE_OWNER), 0, GUEST_NOTE_DEVICE_TREE};
    memcpy(i->note.our_name, GUEST_NOTE_OWNER, sizeof(GUEST_NOTE_OWNER));
    for (unsigned n = 0; n < TEXT_BYTES; n++)
        i->text[n] = (uint8_t)(n + 1);
}

static void make_memory(struct memory *memory)
{
    static const struct memory_region ranges[] = {{.gpa = 0, .npages = LOW_PAGES},
                                                  {.gpa = 0x100000000ull, .npages = 16}};
    struct error err = {""};

    if (memory_create(memory, ranges, 2, MEMORY_ANON, &err))
        fail_msg("%s", err.text);
}

static int load(struct memory *memory, const void *image, size_t bytes, struct error *err)
{
    struct loader_entry entry = {0};
    /* An exact copy, so that a sanitizer sees a read past the end. */
    uint8_t *copy = malloc(bytes ? bytes : 1);
    int result;

    assert_non_null(copy);
    memcpy(copy, image, bytes);
    err->text[0] = '\0';
    result = loader_load_elf(memory, NAME, copy, bytes, "hello", "tree", 4, &entry, err);
    free(copy);
    return result;
}

static bool untouched(const struct memory *memory)
{
    for (unsigned i = 0; i < memory->nregions; i++) {
        if (bitmap_count(memory->region[i].vmm_dirty, memory->region[i].npages))
            return false;
    }
    return true;
}

static uint64_t read_le(const struct memory *memory, gpa_t gpa, unsigned bytes)
{
    uint64_t value = 0;

    assert_int_equal(memory_read(memory, gpa, &value, bytes), 0);
    return value;
}

static void check_start_info(const struct memory *memory, gpa_t info, bool with_tree)
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
    assert_int_equal(read_le(memory, info + 32, 8), 0);
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
    struct loader_entry entry;
    struct memory memory;
    struct image image;
    uint64_t bss = LOAD_GPA / PAGE + 1;

    (void)state;
    make_image(&image);
    make_memory(&memory);
    if (loader_load_elf(&memory, NAME, &image, sizeof(image), "hello", "tree", 4, &entry, &err))
        fail_msg("%s", err.text);
    assert_int_equal(entry.mode, LOADER_PVH);
    assert_int_equal(entry.address, LOAD_GPA + 8);
    assert_memory_equal(memory_at(&memory, LOAD_GPA, TEXT_BYTES), image.text, TEXT_BYTES);
    check_start_info(&memory, entry.start_info, true);
    /* Written pages are marked; BSS is not written. */
    assert_true(bitmap_test(memory.region[0].vmm_dirty, LOAD_GPA / PAGE));
    assert_true(bitmap_test(memory.region[0].vmm_dirty, entry.start_info / PAGE));
    assert_false(bitmap_test(memory.region[0].vmm_dirty, bss));
    memory_destroy(&memory);
}

static void gives_no_tree_unasked(void **state)
{
    struct error err = {""};
    struct loader_entry entry;
    struct memory memory;
    struct image image;

    (void)state;
    make_image(&image);
    image.note.ours.n_type = 77;
    /* Where the tree would lie is free for an image that gets none. */
    image.header.e_phnum = 3;
    image.program[2].p_paddr = 0x30000;
    make_memory(&memory);
    if (loader_load_elf(&memory, NAME, &image, sizeof(image), "hello", "tree", 4, &entry, &err))
        fail_msg("%s", err.text);
    check_start_info(&memory, entry.start_info, false);
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
    make_image(&image);
    image.header.e_phnum = 3;
    swap = image.program[0];
    image.program[0] = image.program[2];
    image.program[2] = swap;
    make_memory(&memory);
    assert_int_equal(load(&memory, &image, sizeof(image), &err), 0);
    memory_destroy(&memory);

    /* An 8-byte value in a segment of 8-byte alignment: 12 + 4 bytes reach the next multiple. */
    memset(&wide, 0, sizeof(wide));
    make_image(&wide.image);
    wide.image.program[1].p_offset = sizeof(struct image);
    wide.image.program[1].p_filesz = sizeof(Elf64_Nhdr) + 4 + 8;
    wide.image.program[1].p_align = 8;
    wide.note = (Elf64_Nhdr){4, 8, 18};
    memcpy(wide.name, "Xen\0\x08\0\x10\0", 8); /* name, then 0x100008 */
    make_memory(&memory);
    assert_int_equal(load(&memory, &wide, sizeof(wide), &err), 0);
    memory_destroy(&memory);
}

struct bad_image {
    const char *named;
    int code;
    void (*bend)(struct image *image, size_t *bytes);
};

#define BEND(name, statement)                        \
    static void name(struct image *i, size_t *bytes) \
    {                                                \
        (void)i;                                     \
        (void)bytes;                                 \
        statement;                                   \
    }

BEND(empty, *bytes = 0)
BEND(cut_in_magic, *bytes = 4)
BEND(cut_in_header, *bytes = 60)
BEND(cut_in_programs, *bytes = 100)
BEND(cut_in_text, *bytes = offsetof(struct image, text) + TEXT_BYTES - 1)
BEND(elf32, i->header.e_ident[EI_CLASS] = ELFCLASS32)
BEND(class_9, i->header.e_ident[EI_CLASS] = 9)
BEND(big_endian, i->header.e_ident[EI_DATA] = ELFDATA2MSB)
BEND(arm, i->header.e_machine = EM_AARCH64)
BEND(object, i->header.e_type = ET_REL)
BEND(no_programs, i->header.e_phnum = 0)
BEND(many_programs, i->header.e_phnum = 0xffff)
BEND(phentsize, i->header.e_phentsize = 32)
BEND(phoff_far, i->header.e_phoff = UINT64_MAX - 8)
BEND(phoff_end, i->header.e_phoff = sizeof(struct image) - 8)
BEND(filesz, i->program[0].p_filesz = i->program[0].p_memsz + 1)
BEND(offset_wraps, i->program[0].p_offset = UINT64_MAX - 4)
BEND(outside_ram, i->program[0].p_paddr = 0xd0000000)
BEND(over_the_end, i->program[0].p_paddr = LOW_PAGES * PAGE - BSS_BYTES + 1)
BEND(paddr_wraps, i->program[0].p_paddr = UINT64_MAX - 8)
BEND(memsz_huge, i->program[0].p_memsz = UINT64_MAX)
BEND(on_start_info, i->program[0].p_paddr = 0x5000)
BEND(on_cmdline, i->program[0].p_paddr = 0x20fff)
BEND(on_tree, i->program[0].p_paddr = 0x30003)
BEND(over_low, i->program[0].p_paddr = 0; i->program[0].p_memsz = 0x200000)
BEND(overlap, i->header.e_phnum = 3; i->program[2].p_paddr = LOAD_GPA + BSS_BYTES - 1)
BEND(no_note, i->header.e_phnum = 1)
BEND(other_note, i->note.xen.n_type = 17)
BEND(other_owner, i->note.xen_name[0] = 'x')
BEND(note_desc, i->note.xen.n_descsz = 5)
BEND(note_name_long, i->note.xen.n_namesz = UINT32_MAX)
BEND(note_desc_long, i->note.xen.n_descsz = UINT32_MAX)
BEND(note_cut, i->program[1].p_filesz = 18)
BEND(note_outside, i->program[1].p_offset = sizeof(struct image))
BEND(note_tail, i->program[1].p_filesz = 20 + 4)
BEND(entry_bss, i->note.entry = LOAD_GPA + TEXT_BYTES)
BEND(entry_below, i->note.entry = LOAD_GPA - 1)
BEND(entry_zero, i->note.entry = 0)

static const struct bad_image bad_images[] = {
    {"empty file", -ENOEXEC, empty},
    {"truncated in the ELF header", -ENOEXEC, cut_in_magic},
    {"truncated in the ELF header", -ENOEXEC, cut_in_header},
    {"program headers at 0x40 lie outside", -ENOEXEC, cut_in_programs},
    {"truncated: segment 0", -ENOEXEC, cut_in_text},
    {"32-bit ELF", -ENOEXEC, elf32},
    {"ELF class 9", -ENOEXEC, class_9},
    {"big-endian", -ENOEXEC, big_endian},
    {"machine 183", -ENOEXEC, arm},
    {"not an executable", -ENOEXEC, object},
    {"no program headers", -ENOEXEC, no_programs},
    {"65535 program headers", -ENOEXEC, many_programs},
    {"of 32 bytes", -ENOEXEC, phentsize},
    {"lie outside the file", -ENOEXEC, phoff_far},
    {"lie outside the file", -ENOEXEC, phoff_end},
    {"more bytes in the file", -ENOEXEC, filesz},
    {"ends outside the file", -ENOEXEC, offset_wraps},
    {"outside guest RAM", -ENOMEM, outside_ram},
    {"outside guest RAM", -ENOMEM, over_the_end},
    {"outside guest RAM", -ENOMEM, paddr_wraps},
    {"outside guest RAM", -ENOMEM, memsz_huge},
    {"overlaps the boot structures", -ENOEXEC, on_start_info},
    {"overlaps the boot structures", -ENOEXEC, on_cmdline},
    {"overlaps the boot structures", -ENOEXEC, on_tree},
    {"overlaps the boot structures", -ENOEXEC, over_low},
    {"segments 0 and 2 overlap", -ENOEXEC, overlap},
    {"no PVH entry note", -ENOEXEC, no_note},
    {"no PVH entry note", -ENOEXEC, other_note},
    {"no PVH entry note", -ENOEXEC, other_owner},
    {"not 4 or 8", -ENOEXEC, note_desc},
    {"beyond its segment", -ENOEXEC, note_name_long},
    {"beyond its segment", -ENOEXEC, note_desc_long},
    {"beyond its segment", -ENOEXEC, note_cut},
    {"truncated: segment 1", -ENOEXEC, note_outside},
    {"truncated note", -ENOEXEC, note_tail},
    {"in no loaded segment", -ENOEXEC, entry_bss},
    {"in no loaded segment", -ENOEXEC, entry_below},
    {"in no loaded segment", -ENOEXEC, entry_zero},
};

static void names_what_is_wrong(void **state)
{
    struct memory memory;

    (void)state;
    make_memory(&memory);
    for (size_t n = 0; n < sizeof(bad_images) / sizeof(bad_images[0]); n++) {
        size_t bytes = sizeof(struct image);
        struct error err;
        struct image image;
        int result;

        make_image(&image);
        bad_images[n].bend(&image, &bytes);
        result = load(&memory, &image, bytes, &err);
        if (result != bad_images[n].code || !strstr(err.text, bad_images[n].named) ||
            strncmp(err.text, NAME ": ", 7) != 0)
            fail_msg("case %zu: %d '%s', expected '%s'", n, result, err.text, bad_images[n].named);
        assert_true(untouched(&memory));
    }
    memory_destroy(&memory);
}

static void names_other_formats(void **state)
{
    static const struct {
        size_t offset, magic_bytes;
        const char *magic, *named;
    } formats[] = {
        {0x202, 4, "HdrS", "bzImage"},
        {0, 2, "\x1f\x8b", "gzip"},
        {0, 6,
         "\xfd"
         "7zXZ",
         "xz"},
        {0, 4, "\x28\xb5\x2f\xfd", "zstd"},
        {0, 2, "#!", "script"},
        {0, 2, "MZ", "EFI"},
        {0, 4, "\xd0\x0d\xfe\xed", "device tree"},
        {0, 4, "QFI\xfb", "qcow2"},
        {0x1fe, 2, "\x55\xaa", "boot sector"},
        {0x80, 12, "\x02\xb0\xad\x1b\0\0\0\0\xfe\x4f\x52\xe4", "multiboot"},
        {0x88, 16, "\xd6\x50\x52\xe8\0\0\0\0\x10\0\0\0\x1a\xaf\xad\x17", "multiboot"},
        {8, 4, "what", "unknown format"},
    };
    struct memory memory;

    (void)state;
    make_memory(&memory);
    for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++) {
        uint8_t file[1024] = {0};
        struct error err;

        memcpy(file + formats[n].offset, formats[n].magic, formats[n].magic_bytes);
        assert_int_equal(load(&memory, file, sizeof(file), &err), -ENOEXEC);
        if (!strstr(err.text, formats[n].named))
            fail_msg("'%s' does not name '%s'", err.text, formats[n].named);
        /* The same, cut right behind and inside of what identifies it. */
        (void)load(&memory, file, formats[n].offset + formats[n].magic_bytes, &err);
        (void)load(&memory, file, formats[n].offset + formats[n].magic_bytes - 1, &err);
    }
    assert_true(untouched(&memory));
    memory_destroy(&memory);
}

static void refuses_long_command_lines(void **state)
{
    char line[MACHINE_BOOTARGS_MAX + 2];
    struct error err = {""};
    struct loader_entry entry;
    struct memory memory;
    struct image image;

    (void)state;
    make_image(&image);
    make_memory(&memory);
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    assert_int_equal(
        loader_load_elf(&memory, NAME, &image, sizeof(image), line, NULL, 0, &entry, &err), -E2BIG);
    assert_true(untouched(&memory));
    line[MACHINE_BOOTARGS_MAX] = '\0';
    assert_int_equal(
        loader_load_elf(&memory, NAME, &image, sizeof(image), line, NULL, 0, &entry, &err), 0);
    memory_destroy(&memory);
}

static void survives_random_damage(void **state)
{
    struct memory memory;
    uint32_t random = 1;

    (void)state;
    make_memory(&memory);
    for (int n = 0; n < 20000; n++) {
        struct error err;
        struct image image;

        make_image(&image);
        image.header.e_phnum = 3;
        for (int flips = 0; flips <= n % 4; flips++) {
            random = random * 1664525u + 1013904223u;
            ((uint8_t *)&image)[(random >> 8) % sizeof(image)] ^=
                (uint8_t)(1u << (random >> 5 & 7));
        }
        (void)load(&memory, &image, sizeof(image), &err);
    }
    memory_destroy(&memory);
}

static void loads_flat_images(void **state)
{
    static const uint8_t code[] = {0xb0, 0x01, 0xe6, 0xf4, 0xf4};
    struct error err = {""};
    struct loader_entry entry;
    struct memory memory;

    (void)state;
    make_memory(&memory);
    assert_int_equal(loader_load_flat(&memory, NAME, code, sizeof(code), 0x7c00, "", &entry, &err),
                     0);
    assert_int_equal(entry.mode, LOADER_REAL_MODE);
    assert_int_equal(entry.address, 0x7c00);
    assert_int_equal(entry.start_info, 0);
    assert_memory_equal(memory_at(&memory, 0x7c00, 5), code, 5);
    assert_int_equal(
        loader_load_flat(&memory, NAME, code, sizeof(code), 0x100000, "hello", &entry, &err), 0);
    assert_int_equal(entry.mode, LOADER_PROTECTED);
    check_start_info(&memory, entry.start_info, false);
    assert_int_equal(
        loader_load_flat(&memory, NAME, code, sizeof(code), LOW_PAGES * PAGE - 5, "", &entry, &err),
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
    make_memory(&memory);
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        struct error err = {""};
        assert_int_equal(loader_load_flat(&memory, NAME, code, cases[n].bytes, cases[n].address,
                                          cases[n].bootargs, &entry, &err),
                         cases[n].code);
        assert_int_equal(strncmp(err.text, NAME ": ", 7), 0);
        assert_true(untouched(&memory));
    }
    memory_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_a_good_image),
        cmocka_unit_test(gives_no_tree_unasked),
        cmocka_unit_test(takes_unsorted_headers_and_long_notes),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(names_other_formats),
        cmocka_unit_test(refuses_long_command_lines),
        cmocka_unit_test(survives_random_damage),
        cmocka_unit_test(loads_flat_images),
        cmocka_unit_test(refuses_bad_flat_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
