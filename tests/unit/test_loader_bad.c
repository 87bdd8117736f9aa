/* SPDX-License-Identifier: MIT
 *
 * The ELF loader against every kind of bad image: refused with a line that names the fault, and
 * without having written a byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/loader_image.h"

#define PAGE MEMORY_PAGE_BYTES

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
BEND(on_start_info, i->program[0].p_paddr = 0x6001 - BSS_BYTES)
BEND(after_start_info, i->program[0].p_paddr = 0x6fff)
BEND(on_cmdline, i->program[0].p_paddr = 0x20fff)
BEND(on_tree, i->program[0].p_paddr = 0x30003)
BEND(over_low, i->program[0].p_paddr = 0; i->program[0].p_memsz = 0x200000)
BEND(overlap, i->header.e_phnum = 3; i->program[2].p_paddr = LOAD_GPA + BSS_BYTES - 1)
BEND(overlap_below, i->header.e_phnum = 3; i->program[0].p_paddr = LOAD_GPA + 0x1000;
     i->program[2].p_paddr = LOAD_GPA + 0x1000 - 15)
BEND(on_reset_code, i->program[0].p_paddr = 0xffff8; i->program[0].p_memsz = TEXT_BYTES)
BEND(on_tables, i->program[0].p_paddr = 0xe0007; i->program[0].p_memsz = TEXT_BYTES)
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
    {"overlaps the boot structures", -ENOEXEC, after_start_info},
    {"overlaps the boot structures", -ENOEXEC, on_cmdline},
    {"overlaps the boot structures", -ENOEXEC, on_tree},
    {"overlaps the boot structures", -ENOEXEC, over_low},
    {"overlaps the boot structures", -ENOEXEC, on_reset_code},
    {"overlaps the boot structures", -ENOEXEC, on_tables},
    {"segments 0 and 2 overlap", -ENOEXEC, overlap},
    {"segments 0 and 2 overlap", -ENOEXEC, overlap_below},
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
    loader_image_memory(&memory);
    for (size_t n = 0; n < sizeof(bad_images) / sizeof(bad_images[0]); n++) {
        size_t bytes = sizeof(struct image);
        struct error err;
        struct image image;
        int result;

        loader_image_make(&image);
        bad_images[n].bend(&image, &bytes);
        result = loader_image_load(&memory, &image, bytes, &err);
        if (result != bad_images[n].code || !strstr(err.text, bad_images[n].named) ||
            strncmp(err.text, NAME ": ", 7) != 0)
            fail_msg("case %zu: %d '%s', expected '%s'", n, result, err.text, bad_images[n].named);
        assert_true(loader_image_untouched(&memory));
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
        {0x80, 12, "\x02\xb0\xad\x1b\0\0\0\0\xfe\x4f\x52\xe4", "Multiboot"},
        {0x88, 16, "\xd6\x50\x52\xe8\0\0\0\0\x10\0\0\0\x1a\xaf\xad\x17", "Multiboot"},
        {8, 4, "what", "unknown format"},
    };
    struct memory memory;

    (void)state;
    loader_image_memory(&memory);
    for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++) {
        uint8_t file[1024] = {0};
        struct error err;

        memcpy(file + formats[n].offset, formats[n].magic, formats[n].magic_bytes);
        assert_int_equal(loader_image_load(&memory, file, sizeof(file), &err), -ENOEXEC);
        if (!strstr(err.text, formats[n].named))
            fail_msg("'%s' does not name '%s'", err.text, formats[n].named);
        /* The same, cut right behind and inside of what identifies it. */
        (void)loader_image_load(&memory, file, formats[n].offset + formats[n].magic_bytes, &err);
        (void)loader_image_load(&memory, file, formats[n].offset + formats[n].magic_bytes - 1,
                                &err);
    }
    assert_true(loader_image_untouched(&memory));
    memory_destroy(&memory);
}

static void survives_random_damage(void **state)
{
    struct memory memory;
    uint32_t random = 1;

    (void)state;
    loader_image_memory(&memory);
    for (int n = 0; n < 20000; n++) {
        struct error err;
        struct image image;

        loader_image_make(&image);
        image.header.e_phnum = 3;
        for (int flips = 0; flips <= n % 4; flips++) {
            random = random * 1664525u + 1013904223u;
            ((uint8_t *)&image)[(random >> 8) % sizeof(image)] ^=
                (uint8_t)(1u << (random >> 5 & 7));
        }
        (void)loader_image_load(&memory, &image, sizeof(image), &err);
    }
    memory_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(names_other_formats),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
