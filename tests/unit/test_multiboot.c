/* SPDX-License-Identifier: MIT
 *
 * Multiboot images (Multiboot Specification 0.6.96) and ELF files of 32 bits: what a good one finds
 * in memory, and that a bad one is refused with one line and without having written a byte. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/loader_image.h"

#define MAGIC      0x1badb002u
#define CODE_BYTES 64u
#define BSS        0x2000u
#define ENTRY      (LOAD_GPA + 0x40)
#define PAGE       MEMORY_PAGE_BYTES
#define FLAGS      0x3u
#define ADDRESSES  0x10000u
#define NO_ADDRESS 0u
#define INFO       0x6000u

struct header {
    uint32_t magic, flags, checksum;
    uint32_t header_gpa, load_gpa, load_end, bss_end, entry;
};

/* A file of 32 bits: ELF header, one segment that begins with the Multiboot header. */
struct kernel {
    Elf32_Ehdr elf;
    Elf32_Phdr program[2];
    struct {
        Elf32_Nhdr header;
        char name[4];
        uint32_t entry;
    } note;
    struct header multiboot;
    uint8_t code[CODE_BYTES];
};

#define SEGMENT_OFFSET offsetof(struct kernel, multiboot)
#define SEGMENT_BYTES  (sizeof(struct kernel) - SEGMENT_OFFSET)

static void seal(struct header *header)
{
    header->checksum = 0u - header->magic - header->flags;
}

static void make_elf(struct kernel *k)
{
    memset(k, 0, sizeof(*k));
    memcpy(k->elf.e_ident, ELFMAG, SELFMAG);
    k->elf.e_ident[EI_CLASS] = ELFCLASS32;
    k->elf.e_ident[EI_DATA] = ELFDATA2LSB;
    k->elf.e_type = ET_EXEC;
    k->elf.e_machine = EM_386;
    k->elf.e_entry = ENTRY;
    k->elf.e_phoff = offsetof(struct kernel, program);
    k->elf.e_phentsize = sizeof(Elf32_Phdr);
    k->elf.e_phnum = 1;
    k->program[0] = (Elf32_Phdr){.p_type = PT_LOAD,
                                 .p_offset = SEGMENT_OFFSET,
                                 .p_paddr = LOAD_GPA,
                                 .p_filesz = SEGMENT_BYTES,
                                 .p_memsz = BSS};
    k->program[1] = (Elf32_Phdr){.p_type = PT_NOTE,
                                 .p_offset = offsetof(struct kernel, note),
                                 .p_filesz = sizeof(k->note),
                                 .p_memsz = sizeof(k->note),
                                 .p_align = 4};
    k->note.header = (Elf32_Nhdr){4, 4, 18};
    memcpy(k->note.name, "Xen", 4);
    k->note.entry = LOAD_GPA + 0x20;
    k->multiboot = (struct header){.magic = MAGIC, .flags = FLAGS};
    seal(&k->multiboot);
    memset(k->code, 0x90, sizeof(k->code));
}

/* The same bytes, but no ELF file: the header says where they go. The file begins 0x40 bytes in
 * front of what is loaded. */
static void make_flat(struct kernel *k)
{
    make_elf(k);
    memset(&k->elf, 0, sizeof(k->elf));
    k->multiboot.flags = FLAGS | ADDRESSES;
    k->multiboot.header_gpa = LOAD_GPA + (uint32_t)SEGMENT_OFFSET - 0x40;
    k->multiboot.load_gpa = LOAD_GPA;
    k->multiboot.load_end = LOAD_GPA + (uint32_t)sizeof(*k) - 0x40;
    k->multiboot.bss_end = LOAD_GPA + BSS;
    k->multiboot.entry = ENTRY;
    seal(&k->multiboot);
}

static int load(struct memory *memory, const void *image, size_t bytes,
                const struct loader_blob *initrd, struct loader_entry *entry, struct error *err)
{
    uint8_t *copy = malloc(bytes ? bytes : 1); /* exact, for the sanitizers */
    struct loader_request request;
    int ret;

    assert_non_null(copy);
    memcpy(copy, image, bytes);
    request = loader_image_request(copy, bytes);
    if (initrd)
        request.initrd = *initrd;
    err->text[0] = '\0';
    ret = loader_load(memory, &request, entry, err);
    free(copy);
    return ret;
}

static uint32_t peek(const struct memory *memory, gpa_t gpa)
{
    uint32_t value = 0;

    assert_int_equal(memory_read(memory, gpa, &value, sizeof(value)), 0);
    return value;
}

static void expect_text(const struct memory *memory, gpa_t gpa, const char *text)
{
    assert_string_equal(memory_at(memory, gpa, strlen(text) + 1), text);
}

static void check_info(const struct memory *memory, uint32_t modules)
{
    static const uint32_t map[][6] = {{20, 0, 0, 0xa0000, 0, 1},
                                      {20, 0xa0000, 0, 0x60000, 0, 2},
                                      {20, 0x100000, 0, LOW_PAGES * PAGE - 0x100000, 0, 1},
                                      {20, 0, 1, 16 * PAGE, 0, 1}};
    uint32_t map_gpa = peek(memory, INFO + 48);

    assert_int_equal(peek(memory, INFO), 1 << 0 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 9);
    assert_int_equal(peek(memory, INFO + 4), 640);
    assert_int_equal(peek(memory, INFO + 8), (LOW_PAGES * PAGE - 0x100000) / 1024);
    expect_text(memory, peek(memory, INFO + 16), "hello");
    assert_int_equal(peek(memory, INFO + 20), modules);
    assert_int_equal(peek(memory, INFO + 44), sizeof(map));
    assert_memory_equal(memory_at(memory, map_gpa, sizeof(map)), map, sizeof(map));
    expect_text(memory, peek(memory, INFO + 64), "pageferry");
    assert_memory_equal(memory_at(memory, LOADER_ACPI_GPA, 8), "RSD PTR ", 8);
}

static void expect_entry(const struct loader_entry *entry, uint32_t eax, gpa_t address)
{
    assert_int_equal(entry->mode, LOADER_PROTECTED);
    assert_int_equal(entry->eax, eax);
    assert_int_equal(entry->info, INFO);
    assert_int_equal(entry->address, address);
}

static void loads_elf32(void **state)
{
    static const uint8_t module[5000] = {'m'};
    const struct loader_blob initrd = {"module", module, sizeof(module)};
    struct loader_entry entry;
    struct memory memory;
    struct kernel kernel;
    struct error err;
    uint32_t at;

    (void)state;
    make_elf(&kernel);
    loader_image_memory(&memory);
    if (load(&memory, &kernel, sizeof(kernel), &initrd, &entry, &err))
        fail_msg("%s", err.text);
    expect_entry(&entry, 0x2badb002, ENTRY);
    assert_memory_equal(memory_at(&memory, LOAD_GPA, SEGMENT_BYTES), &kernel.multiboot,
                        SEGMENT_BYTES);
    check_info(&memory, 1);
    at = peek(&memory, INFO + 24);
    assert_int_equal(peek(&memory, at), LOW_PAGES * PAGE - 2 * PAGE);
    assert_int_equal(peek(&memory, at + 4), LOW_PAGES * PAGE - 2 * PAGE + sizeof(module));
    assert_memory_equal(memory_at(&memory, peek(&memory, at), sizeof(module)), module,
                        sizeof(module));
    memory_destroy(&memory);
}

/* A PVH note is preferred to a Multiboot header, in either class. */
static void prefers_pvh(void **state)
{
    struct loader_entry entry;
    struct memory memory;
    struct kernel kernel;
    struct error err;

    (void)state;
    make_elf(&kernel);
    kernel.elf.e_phnum = 2;
    loader_image_memory(&memory);
    if (load(&memory, &kernel, sizeof(kernel), NULL, &entry, &err))
        fail_msg("%s", err.text);
    expect_entry(&entry, 0, LOAD_GPA + 0x20);
    assert_int_equal(peek(&memory, INFO), 0x336ec578);
    memory_destroy(&memory);
}

static void loads_elf64(void **state)
{
    struct {
        struct image image;
        struct header multiboot;
    } file;
    struct loader_entry entry;
    struct memory memory;
    struct error err;

    (void)state;
    memset(&file, 0, sizeof(file));
    loader_image_make(&file.image);
    file.image.header.e_phnum = 1; /* no notes */
    file.image.header.e_entry = LOAD_GPA + 4;
    file.multiboot = (struct header){.magic = MAGIC, .flags = FLAGS};
    seal(&file.multiboot);
    loader_image_memory(&memory);
    if (load(&memory, &file, sizeof(file), NULL, &entry, &err))
        fail_msg("%s", err.text);
    expect_entry(&entry, 0x2badb002, LOAD_GPA + 4);
    check_info(&memory, 0);
    memory_destroy(&memory);
}

static void loads_by_addresses(void **state)
{
    struct loader_entry entry;
    struct memory memory;
    struct kernel kernel;
    struct error err;

    (void)state;
    make_flat(&kernel);
    loader_image_memory(&memory);
    if (load(&memory, &kernel, sizeof(kernel), NULL, &entry, &err))
        fail_msg("%s", err.text);
    expect_entry(&entry, 0x2badb002, ENTRY);
    assert_memory_equal(memory_at(&memory, LOAD_GPA, sizeof(kernel) - 0x40),
                        (uint8_t *)&kernel + 0x40, sizeof(kernel) - 0x40);
    check_info(&memory, 0);
    memory_destroy(&memory);

    /* An ELF file too is loaded by the addresses in its header. */
    make_elf(&kernel);
    kernel.multiboot.flags = FLAGS | ADDRESSES;
    kernel.multiboot.header_gpa = kernel.multiboot.load_gpa = LOAD_GPA + 0x1000;
    kernel.multiboot.entry = LOAD_GPA + 0x1010;
    seal(&kernel.multiboot);
    loader_image_memory(&memory);
    if (load(&memory, &kernel, sizeof(kernel), NULL, &entry, &err))
        fail_msg("%s", err.text);
    expect_entry(&entry, 0x2badb002, LOAD_GPA + 0x1010);
    assert_memory_equal(memory_at(&memory, LOAD_GPA + 0x1000, SEGMENT_BYTES), &kernel.multiboot,
                        SEGMENT_BYTES);
    memory_destroy(&memory);
}

#define BEND(name, statement)                            \
    static void name(struct kernel *k, struct header *h) \
    {                                                    \
        (void)k;                                         \
        (void)h;                                         \
        statement;                                       \
    }

BEND(no_checksum, h->flags |= 1u << 20)
BEND(video, h->flags |= 1u << 2; seal(h))
BEND(unknown_feature, h->flags |= 1u << 7; seal(h))
BEND(elf_entry, k->elf.e_entry = LOAD_GPA + SEGMENT_BYTES)
BEND(elf_outside, k->program[0].p_paddr = 0xd0000000)
BEND(elf_on_info, k->program[0].p_paddr = 0x7ffc)
BEND(elf_for_arm, k->elf.e_machine = EM_ARM)
BEND(elf_64_in_32, k->elf.e_machine = EM_X86_64)
BEND(load_behind_header, h->load_gpa = h->header_gpa + 4)
BEND(header_far, h->header_gpa = LOAD_GPA + SEGMENT_OFFSET + 1)
BEND(end_before_start, h->load_end = LOAD_GPA - 1)
BEND(end_in_nowhere, h->load_end = LOAD_GPA + sizeof(*k) - 0x40 + 1)
BEND(bss_in_data, h->bss_end = h->load_end - 1)
BEND(bss_huge, h->bss_end = UINT32_MAX)
BEND(entry_outside, h->entry = h->load_end)
BEND(entry_below, h->entry = LOAD_GPA - 1)
BEND(outside, h->header_gpa += 0xd0000000 - LOAD_GPA; h->load_gpa = 0xd0000000;
     h->load_end = h->bss_end = 0; h->entry = 0xd0000000)
BEND(wraps, h->header_gpa += 0xffffff00 - LOAD_GPA; h->load_gpa = 0xffffff00;
     h->load_end = h->bss_end = 0; h->entry = 0xffffff00)
BEND(on_info, h->header_gpa += 0x7ff0 - LOAD_GPA; h->load_gpa = 0x7ff0;
     h->load_end = h->bss_end = 0; h->entry = 0x7ff0)

struct bad_image {
    const char *named;
    int code;
    void (*bend)(struct kernel *k, struct header *h);
};

static const struct bad_image bad_elf[] = {
    {"no Multiboot header", -ENOEXEC, no_checksum},
    {"requires a video mode", -ENOEXEC, video},
    {"unknown features 0x80", -ENOEXEC, unknown_feature},
    {"in no loaded segment", -ENOEXEC, elf_entry},
    {"outside guest RAM", -ENOMEM, elf_outside},
    {"overlaps the boot structures", -ENOEXEC, elf_on_info},
    {"for machine 40", -ENOEXEC, elf_for_arm},
    {"for machine 62", -ENOEXEC, elf_64_in_32},
};

static const struct bad_image bad_flat[] = {
    {"unknown format", -ENOEXEC, no_checksum},
    {"requires a video mode", -ENOEXEC, video},
    {"before load_addr", -ENOEXEC, load_behind_header},
    {"further behind it than in the file", -ENOEXEC, header_far},
    {"truncated", -ENOEXEC, end_before_start},
    {"truncated", -ENOEXEC, end_in_nowhere},
    {"bss_end_addr", -ENOEXEC, bss_in_data},
    {"not all RAM", -ENOMEM, bss_huge},
    {"is not in what is loaded", -ENOEXEC, entry_outside},
    {"is not in what is loaded", -ENOEXEC, entry_below},
    {"not all RAM", -ENOMEM, outside},
    {"not all RAM", -ENOMEM, wraps},
    {"overlaps the boot structures", -ENOEXEC, on_info},
};

static void expect_refusals(const struct bad_image *bad, size_t count,
                            void (*make)(struct kernel *kernel))
{
    struct memory memory;

    loader_image_memory(&memory);
    for (size_t n = 0; n < count; n++) {
        struct loader_entry entry;
        struct kernel kernel;
        struct error err;
        int result;

        make(&kernel);
        bad[n].bend(&kernel, &kernel.multiboot);
        result = load(&memory, &kernel, sizeof(kernel), NULL, &entry, &err);
        if (result != bad[n].code || !strstr(err.text, bad[n].named) ||
            strncmp(err.text, NAME ": ", strlen(NAME) + 2) != 0)
            fail_msg("case %zu: %d '%s', expected '%s'", n, result, err.text, bad[n].named);
        assert_true(loader_image_untouched(&memory));
    }
    memory_destroy(&memory);
}

static void names_what_is_wrong(void **state)
{
    (void)state;
    expect_refusals(bad_elf, sizeof(bad_elf) / sizeof(bad_elf[0]), make_elf);
    expect_refusals(bad_flat, sizeof(bad_flat) / sizeof(bad_flat[0]), make_flat);
}

/* The header counts in the first 8 KiB only, at multiples of four bytes. */
static void looks_where_it_may_lie(void **state)
{
    static const struct {
        size_t at;
        bool found;
    } places[] = {{0, true}, {4, true}, {6, false}, {8192 - 12, true}, {8192 - 8, false}};
    struct memory memory;

    (void)state;
    loader_image_memory(&memory);
    for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
        uint8_t file[16384] = {0};
        struct header header = {.magic = MAGIC, .flags = FLAGS};
        struct loader_entry entry;
        struct error err;

        seal(&header);
        memcpy(file + places[n].at, &header, 12);
        assert_int_equal(load(&memory, file, sizeof(file), NULL, &entry, &err), -ENOEXEC);
        assert_int_equal(strstr(err.text, "tells no addresses") != NULL, places[n].found);
    }
    memory_destroy(&memory);
}

static void survives_random_damage(void **state)
{
    struct memory memory;
    uint32_t random = 1;

    (void)state;
    loader_image_memory(&memory);
    for (int n = 0; n < 10000; n++) {
        struct loader_entry entry;
        struct kernel kernel;
        struct error err;

        (n % 2 ? make_elf : make_flat)(&kernel);
        for (int flips = 0; flips <= n % 4; flips++) {
            random = random * 1664525u + 1013904223u;
            ((uint8_t *)&kernel)[(random >> 8) % (sizeof(kernel) - CODE_BYTES)] ^=
                (uint8_t)(1u << (random >> 5 & 7));
        }
        seal(&kernel.multiboot);
        (void)load(&memory, &kernel, sizeof(kernel), NULL, &entry, &err);
    }
    memory_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_elf32),
        cmocka_unit_test(prefers_pvh),
        cmocka_unit_test(loads_elf64),
        cmocka_unit_test(loads_by_addresses),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(looks_where_it_may_lie),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
