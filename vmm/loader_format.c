/* SPDX-License-Identifier: MIT
 *
 * Names for what people hand over instead of a bootable ELF file, so that the refusal helps. */
#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_internal.h"

/* Linux Documentation/arch/x86/boot.rst: boot_flag and the header magic. */
#define BZIMAGE_FLAG_OFFSET  0x1fe
#define BZIMAGE_MAGIC_OFFSET 0x202

/* Multiboot Specification 0.6.96 section 3.1, Multiboot2 section 3.1: where the header may lie and
 * how it is aligned. */
#define MULTIBOOT1_MAGIC        0x1badb002u
#define MULTIBOOT1_SEARCH_BYTES 8192u
#define MULTIBOOT2_MAGIC        0xe85250d6u
#define MULTIBOOT2_SEARCH_BYTES 32768u

struct magic {
    size_t offset;
    size_t bytes;
    const char *magic;
    const char *name;
};

static const struct magic magics[] = {
    {BZIMAGE_MAGIC_OFFSET, 4, "HdrS", "a Linux bzImage"},
    {0, 2, "\x1f\x8b", "gzip-compressed data"},
    {0, 6,
     "\xfd"
     "7zXZ",
     "xz-compressed data"},
    {0, 4, "\x28\xb5\x2f\xfd", "zstd-compressed data"},
    {0, 3, "BZh", "bzip2-compressed data"},
    {0, 2, "#!", "a script"},
    {0, 2, "MZ", "a DOS or EFI program"},
    {0, 4, "\xd0\x0d\xfe\xed", "a device tree"},
    {0, 4, "QFI\xfb", "a qcow2 disk image"},
    {0, 8, "!<arch>\n", "a static library"},
    {BZIMAGE_FLAG_OFFSET, 2, "\x55\xaa", "a boot sector or disk image"},
};

static uint32_t load32(const uint8_t *data)
{
    return (uint32_t)data[3] << 24 | (uint32_t)data[2] << 16 | (uint32_t)data[1] << 8 | data[0];
}

bool loader_has_multiboot(const void *image, size_t bytes)
{
    const uint8_t *data = image;

    for (size_t at = 0; at < MULTIBOOT2_SEARCH_BYTES && size_range_within(at, 16, bytes); at += 4) {
        uint32_t magic = load32(data + at);
        uint32_t sum = magic + load32(data + at + 4) + load32(data + at + 8);

        if (magic == MULTIBOOT1_MAGIC && at < MULTIBOOT1_SEARCH_BYTES && sum == 0)
            return true;
        if (magic == MULTIBOOT2_MAGIC && at % 8 == 0 && sum + load32(data + at + 12) == 0)
            return true;
    }
    return false;
}

const char *loader_foreign_format(const void *image, size_t bytes)
{
    const uint8_t *data = image;

    if (!bytes)
        return "an empty file";
    if (bytes >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0) {
        if (bytes <= EI_CLASS || data[EI_CLASS] != ELFCLASS32)
            return NULL;
        return loader_has_multiboot(image, bytes) ? "a 32-bit ELF file with a multiboot header"
                                                  : "a 32-bit ELF file";
    }
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
        const struct magic *m = &magics[i];
        if (size_range_within(m->offset, m->bytes, bytes) &&
            memcmp(data + m->offset, m->magic, m->bytes) == 0)
            return m->name;
    }
    if (loader_has_multiboot(image, bytes))
        return "a multiboot image";
    return "an unknown format";
}
