/* SPDX-License-Identifier: MIT
 *
 * bzImages: what a good one finds in memory, and that a bad one is refused with one line and
 * without having written a byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/loader_image.h"

#define SECTORS      2u /* of setup code, the boot sector not counted */
#define SETUP_BYTES  ((SECTORS + 1) * 512u)
#define KERNEL_BYTES 4096u
#define FILE_BYTES   (SETUP_BYTES + KERNEL_BYTES)
#define PREF_ADDRESS 0x1000000u
#define INIT_SIZE    0x800000u
#define RAM_BYTES    (64u << 20)
#define BOOT_PARAMS  0x7000u
#define CMDLINE_SIZE 2047u

/* A bzImage of protocol 2.15; any byte can be bent. */
struct bzimage {
    uint8_t byte[FILE_BYTES];
    size_t bytes;
    struct loader_request request;
};

static void put(struct bzimage *image, size_t offset, uint64_t value, size_t bytes)
{
    memcpy(image->byte + offset, &value, bytes);
}

static void make(struct bzimage *image)
{
    memset(image, 0, sizeof(*image));
    for (size_t i = SETUP_BYTES; i < FILE_BYTES; i++)
        image->byte[i] = (uint8_t)(i * 7 + 1);
    put(image, 0x1f1, SECTORS, 1);
    put(image, 0x1f4, KERNEL_BYTES / 16, 4);
    put(image, 0x1fe, 0xaa55, 2);
    put(image, 0x201, 0x6a, 1); /* the header ends at 0x26c */
    memcpy(image->byte + 0x202, "HdrS", 4);
    put(image, 0x206, 0x020f, 2);
    put(image, 0x211, 0x01, 1);
    put(image, 0x22c, 0x7fffffff, 4);
    put(image, 0x230, 0x200000, 4);
    put(image, 0x236, 0x7f, 2);
    put(image, 0x238, CMDLINE_SIZE, 4);
    put(image, 0x258, PREF_ADDRESS, 8);
    put(image, 0x260, INIT_SIZE, 4);
    put(image, 0x270, 0x77, 1); /* code behind the header: no business of the zero page's */
    image->bytes = FILE_BYTES;
    image->request = loader_image_request(NULL, 0);
}

/* RAM on both sides of the gap, and a frame buffer in it. */
static void make_memory(struct memory *memory)
{
    static const struct memory_region ranges[] = {
        {.gpa = 0, .npages = RAM_BYTES / MEMORY_PAGE_BYTES},
        {.gpa = 0x100000000ull, .npages = 16},
        {.gpa = 0xe0000000ull, .npages = 16}};
    struct error err = {""};

    if (memory_create(memory, ranges, 3, MEMORY_ANON, &err))
        fail_msg("%s", err.text);
}

static int load(struct memory *memory, const struct bzimage *image, struct loader_entry *entry,
                struct error *err)
{
    struct loader_request request = image->request;
    uint8_t *copy = malloc(image->bytes ? image->bytes : 1); /* exact, for the sanitizers */
    int ret;

    assert_non_null(copy);
    memcpy(copy, image->byte, image->bytes);
    request.kernel = (struct loader_blob){NAME, copy, image->bytes};
    err->text[0] = '\0';
    ret = loader_load(memory, &request, entry, err);
    free(copy);
    return ret;
}

static uint64_t peek(const struct memory *memory, gpa_t gpa, unsigned bytes)
{
    uint64_t value = 0;

    assert_int_equal(memory_read(memory, gpa, &value, bytes), 0);
    return value;
}

static void check_zero_page(const struct memory *memory)
{
    static const uint64_t e820[][3] = {{0, 0xa0000, 1},
                                       {0xa0000, 0x60000, 2},
                                       {0x100000, RAM_BYTES - 0x100000, 1},
                                       {0x100000000ull, 0x10000, 1},
                                       {0xe0000000ull, 0x10000, 2}};
    char text[8] = "";

    assert_int_equal(peek(memory, BOOT_PARAMS + 0x1f1, 1), SECTORS); /* the header, copied */
    assert_int_equal(peek(memory, BOOT_PARAMS + 0x202, 4), 0x53726448);
    assert_int_equal(peek(memory, BOOT_PARAMS + 0x258, 8), PREF_ADDRESS);
    assert_int_equal(peek(memory, BOOT_PARAMS + 0x270, 1), 0);
    assert_int_equal(peek(memory, BOOT_PARAMS + 0x210, 1), 0xff);
    assert_int_equal(peek(memory, BOOT_PARAMS + 0x070, 8), LOADER_ACPI_GPA);
    assert_int_equal(memory_read(memory, peek(memory, BOOT_PARAMS + 0x228, 4), text, 6), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(peek(memory, BOOT_PARAMS + 0x1e8, 1), 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(peek(memory, BOOT_PARAMS + 0x2d0 + i * 20, 8), e820[i][0]);
        assert_int_equal(peek(memory, BOOT_PARAMS + 0x2d0 + i * 20 + 8, 8), e820[i][1]);
        assert_int_equal(peek(memory, BOOT_PARAMS + 0x2d0 + i * 20 + 16, 4), e820[i][2]);
    }
}

/* Every 2 MiB of the first 4 GiB lie where they are; selectors as the boot protocol names them. */
static void check_long_mode(const struct memory *memory, const struct loader_entry *entry)
{
    gpa_t pdpt = peek(memory, entry->page_map, 8) & ~0xfffull;

    assert_int_equal(entry->mode, LOADER_LONG);
    for (uint64_t page = 0; page < 2048; page++) {
        gpa_t directory = peek(memory, pdpt + page / 512 * 8, 8) & ~0xfffull;
        uint64_t mapped = peek(memory, directory + page % 512 * 8, 8);

        assert_int_equal(mapped, page << 21 | 0x83);
    }
    assert_int_equal(peek(memory, entry->gdt, 8), 0);
    assert_int_equal(peek(memory, entry->gdt + 0x10, 8), 0x00af9b000000ffff);
    assert_int_equal(peek(memory, entry->gdt + 0x18, 8), 0x00cf93000000ffff);
}

static void loads_a_good_image(void **state)
{
    struct bzimage image;
    struct loader_entry entry;
    struct memory memory;
    struct error err;

    (void)state;
    make(&image);
    make_memory(&memory);
    if (load(&memory, &image, &entry, &err))
        fail_msg("%s", err.text);
    assert_int_equal(entry.address, PREF_ADDRESS + 0x200);
    assert_int_equal(entry.info, BOOT_PARAMS);
    assert_memory_equal(memory_at(&memory, PREF_ADDRESS, KERNEL_BYTES), image.byte + SETUP_BYTES,
                        KERNEL_BYTES);
    check_zero_page(&memory);
    check_long_mode(&memory, &entry);
    assert_int_equal(peek(&memory, BOOT_PARAMS + 0x218, 4), 0);
    assert_int_equal(peek(&memory, BOOT_PARAMS + 0x21c, 4), 0);
    assert_memory_equal(memory_at(&memory, 0xffff0, 3), "\xba\xf9\x0c", 3);
    memory_destroy(&memory);
}

static void takes_no_setup_sectors_for_four(void **state)
{
    struct bzimage image;
    struct loader_entry entry;
    struct memory memory;
    struct error err;

    (void)state;
    make(&image);
    put(&image, 0x1f1, 0, 1);
    put(&image, 0x1f4, (FILE_BYTES - 5 * 512) / 16, 4);
    make_memory(&memory);
    if (load(&memory, &image, &entry, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(memory_at(&memory, PREF_ADDRESS, 64), image.byte + 5 * 512, 64);
    memory_destroy(&memory);
}

/* The initrd's place for an image that allows addresses up to max. */
static gpa_t place(struct bzimage *image, uint32_t max, const void *initrd, size_t bytes)
{
    struct loader_entry entry;
    struct memory memory;
    struct error err;
    gpa_t gpa;

    put(image, 0x22c, max, 4);
    image->request.initrd = (struct loader_blob){"ramdisk", initrd, bytes};
    make_memory(&memory);
    if (load(&memory, image, &entry, &err))
        fail_msg("%s", err.text);
    gpa = peek(&memory, BOOT_PARAMS + 0x218, 4);
    assert_int_equal(peek(&memory, BOOT_PARAMS + 0x21c, 4), bytes);
    assert_memory_equal(memory_at(&memory, gpa, bytes), initrd, bytes);
    memory_destroy(&memory);
    return gpa;
}

static void places_the_initrd(void **state)
{
    static uint8_t initrd[3 * 4096 + 1];
    struct bzimage image;

    (void)state;
    memset(initrd, 0x5a, sizeof(initrd));
    make(&image);
    /* As high as possible: below the end of RAM, or the kernel's limit, at a page. */
    assert_int_equal(place(&image, 0x7fffffff, initrd, sizeof(initrd)), RAM_BYTES - 4 * 4096);
    assert_int_equal(place(&image, 0x2ffffff, initrd, sizeof(initrd)), 0x3000000 - 4 * 4096);
    assert_int_equal(place(&image, 0x2ffffff, initrd, 4096), 0x3000000 - 4096);
    /* Right behind what the kernel unpacks itself into. */
    assert_int_equal(place(&image, PREF_ADDRESS + INIT_SIZE + 4 * 4096 - 1, initrd, sizeof(initrd)),
                     PREF_ADDRESS + INIT_SIZE);
}

static char long_line[CMDLINE_SIZE + 2];

#define BEND(name, statement)               \
    static void name(struct bzimage *image) \
    {                                       \
        statement;                          \
    }

BEND(cut_in_header, image->bytes = 0x28f)
BEND(cut_to_magic, image->bytes = 0x206)
BEND(cut_in_kernel, image->bytes = FILE_BYTES - 1)
BEND(boot_flag, put(image, 0x1fe, 0xaa54, 2))
BEND(magic, put(image, 0x205, 's', 1); put(image, 0, 'M' | 'Z' << 8, 2))
BEND(old_protocol, put(image, 0x206, 0x020b, 2))
BEND(only_32_bits, put(image, 0x236, 0x7e, 2))
BEND(loaded_low, put(image, 0x211, 0, 1))
BEND(no_kernel, put(image, 0x1f4, 0, 4))
BEND(huge_kernel, put(image, 0x1f4, UINT32_MAX, 4))
BEND(too_many_sectors, put(image, 0x1f1, 255, 1))
BEND(runs_low, put(image, 0x258, 0xff000, 8))
BEND(runs_in_gap, put(image, 0x258, 0xc0000000, 8))
BEND(runs_beyond, put(image, 0x258, UINT64_MAX - 4095, 8))
BEND(runs_at_end, put(image, 0x258, RAM_BYTES - INIT_SIZE + 4096, 8))
BEND(unpacks_huge, put(image, 0x260, UINT32_MAX, 4))
BEND(long_command, put(image, 0x238, 4, 4))
BEND(longer_command, image->request.bootargs = long_line; put(image, 0x238, UINT32_MAX, 4))
BEND(large_initrd, image->request.initrd = ((struct loader_blob){NAME, image, RAM_BYTES}))
BEND(huge_initrd, image->request.initrd = ((struct loader_blob){NAME, image, SIZE_MAX}))
BEND(initrd_on_kernel, image->request.initrd = ((struct loader_blob){NAME, image, 4097});
     put(image, 0x22c, PREF_ADDRESS + INIT_SIZE + 4095, 4))
BEND(initrd_limit_low, image->request.initrd = ((struct loader_blob){NAME, image, 1});
     put(image, 0x22c, 0, 4))

static const struct {
    const char *named;
    int code;
    void (*bend)(struct bzimage *image);
} bad_images[] = {
    {"truncated in its setup header", -ENOEXEC, cut_in_header},
    {"truncated in its setup header", -ENOEXEC, cut_to_magic},
    {"truncated: it has 5631 bytes, its header says 5632", -ENOEXEC, cut_in_kernel},
    {"boot flag 0xaa54", -ENOEXEC, boot_flag},
    {"EFI program", -ENOEXEC, magic},
    {"boot protocol 2.11", -ENOEXEC, old_protocol},
    {"32-bit kernel", -ENOEXEC, only_32_bits},
    {"32-bit kernel", -ENOEXEC, loaded_low},
    {"without a kernel", -ENOEXEC, no_kernel},
    {"truncated", -ENOEXEC, huge_kernel},
    {"truncated", -ENOEXEC, too_many_sectors},
    {"wants to run at 0xff000", -ENOEXEC, runs_low},
    {"wants to run at 0xc0000000", -ENOEXEC, runs_in_gap},
    {"wants to run at", -ENOEXEC, runs_beyond},
    {"needs at least 64.0 MiB", -ENOMEM, runs_at_end},
    {"needs at least", -ENOMEM, unpacks_huge},
    {"takes 4 at most", -E2BIG, long_command},
    {"at most 2047 fit", -E2BIG, longer_command},
    {"do not fit between", -ENOMEM, large_initrd},
    {"do not fit between", -ENOMEM, huge_initrd},
    {"do not fit between", -ENOMEM, initrd_on_kernel},
    {"do not fit between", -ENOMEM, initrd_limit_low},
};

static void names_what_is_wrong(void **state)
{
    struct memory memory;

    (void)state;
    memset(long_line, 'x', CMDLINE_SIZE + 1);
    make_memory(&memory);
    for (size_t n = 0; n < sizeof(bad_images) / sizeof(bad_images[0]); n++) {
        struct loader_entry entry;
        struct bzimage image;
        struct error err;
        int result;

        make(&image);
        bad_images[n].bend(&image);
        result = load(&memory, &image, &entry, &err);
        if (result != bad_images[n].code || !strstr(err.text, bad_images[n].named) ||
            strncmp(err.text, NAME ": ", strlen(NAME) + 2) != 0)
            fail_msg("case %zu: %d '%s', expected '%s'", n, result, err.text, bad_images[n].named);
        assert_true(loader_image_untouched(&memory));
    }
    memory_destroy(&memory);
}

static void takes_a_command_line_of_full_length(void **state)
{
    struct loader_entry entry;
    struct bzimage image;
    struct memory memory;
    struct error err;

    (void)state;
    make(&image);
    memset(long_line, 'x', CMDLINE_SIZE);
    long_line[CMDLINE_SIZE] = '\0';
    image.request.bootargs = long_line;
    make_memory(&memory);
    assert_int_equal(load(&memory, &image, &entry, &err), 0);
    assert_memory_equal(memory_at(&memory, peek(&memory, BOOT_PARAMS + 0x228, 4), CMDLINE_SIZE + 1),
                        long_line, CMDLINE_SIZE + 1);
    memory_destroy(&memory);
}

static void survives_random_damage(void **state)
{
    struct memory memory;
    uint32_t random = 1;

    (void)state;
    make_memory(&memory);
    for (int n = 0; n < 5000; n++) {
        struct loader_entry entry;
        struct bzimage image;
        struct error err;

        make(&image);
        for (int flips = 0; flips <= n % 4; flips++) {
            random = random * 1664525u + 1013904223u;
            image.byte[0x1f1 + (random >> 8) % 0x80] ^= (uint8_t)(1u << (random >> 5 & 7));
        }
        (void)load(&memory, &image, &entry, &err);
    }
    memory_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_a_good_image),
        cmocka_unit_test(takes_no_setup_sectors_for_four),
        cmocka_unit_test(places_the_initrd),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(takes_a_command_line_of_full_length),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
