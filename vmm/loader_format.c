/* SPDX-License-Identifier: MIT
 *
 * Names for what people hand over instead of something that can be booted, so that the refusal
 * helps. */
#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_internal.h"
#include "vmm/loader_multiboot.h"

#define BOOT_FLAG_OFFSET 0x1fe

struct magic {
    size_t offset;
    size_t bytes;
    const char *magic;
    const char *name;
};

static const struct magic magics[] = {
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
    {BOOT_FLAG_OFFSET, 2, "\x55\xaa", "a boot sector or disk image"},
};

const char *loader_foreign_format(const void *image, size_t bytes)
{
    const uint8_t *data = image;
    struct loader_multiboot header;

    if (!bytes)
        return "an empty file";
    if (bytes >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0)
        return NULL;
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
        const struct magic *m = &magics[i];
        if (size_range_within(m->offset, m->bytes, bytes) &&
            memcmp(data + m->offset, m->magic, m->bytes) == 0)
            return m->name;
    }
    if (loader_multiboot2_header(image, bytes))
        return "an image with a Multiboot2 header";
    if (loader_multiboot_find(&(struct loader_blob){.data = image, .bytes = bytes}, &header))
        return "an image with a Multiboot header that tells no addresses";
    return "an unknown format";
}
