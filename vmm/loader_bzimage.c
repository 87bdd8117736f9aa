/* SPDX-License-Identifier: MIT
 *
 * Linux bzImages by the 64-bit boot protocol (Linux Documentation/arch/x86/boot.rst): the setup
 * header, where kernel and initrd go, and the boot parameters ("zero page"). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_internal.h"
#include "vmm/loader_long.h"

#define SECTOR_BYTES 512u
#define PARAGRAPH    16u

/* Offsets in the file, and in the boot parameters alike. */
#define SETUP_SECTS    0x1f1
#define SYSSIZE        0x1f4
#define VID_MODE       0x1fa
#define BOOT_FLAG      0x1fe
#define JUMP_OFFSET    0x201 /* the header ends so many bytes behind 0x202 */
#define HEADER_MAGIC   0x202
#define VERSION        0x206
#define TYPE_OF_LOADER 0x210
#define LOADFLAGS      0x211
#define RAMDISK_IMAGE  0x218
#define RAMDISK_SIZE   0x21c
#define CMD_LINE_PTR   0x228
#define INITRD_MAX     0x22c
#define XLOADFLAGS     0x236
#define CMDLINE_SIZE   0x238
#define PREF_ADDRESS   0x258
#define INIT_SIZE      0x260
#define HEADER_END     0x290 /* as far as boot parameters have room for it */
/* Offsets in the boot parameters only. */
#define ACPI_RSDP    0x070
#define E820_ENTRIES 0x1e8
#define E820_TABLE   0x2d0
#define E820_MAX     128

#define BOOT_FLAG_VALUE   0xaa55
#define MIN_VERSION       0x020c
#define LOADED_HIGH       0x01
#define KERNEL_64         0x01
#define DEFAULT_SETUP     4 /* what setup_sects == 0 stands for */
#define UNKNOWN_LOADER    0xff
#define NORMAL_VIDEO_MODE 0xffff
#define ENTRY_64_OFFSET   0x200
#define BOOT_PARAMS_BYTES 4096

static const char header_magic[] = {'H', 'd', 'r', 'S'};

struct e820_entry {
    uint64_t gpa, bytes;
    uint32_t type;
} __attribute__((packed));

_Static_assert(sizeof(struct e820_entry) == 20, "as the boot protocol has it");
_Static_assert(LOADER_MEMMAP_MAX <= E820_MAX, "the memory map fits");
_Static_assert(LOADER_BOOT_PARAMS + BOOT_PARAMS_BYTES <= LOADER_INFO_END, "and has a place");

struct bzimage {
    const struct loader_blob *file;
    const uint8_t *data;
    uint64_t setup_bytes; /* in front of the kernel proper */
    uint64_t gpa, run_bytes;
    gpa_t initrd;
};

/* x86 is little-endian on both sides, the fields are not aligned. */
static uint64_t field(const uint8_t *from, size_t offset, size_t bytes)
{
    uint64_t value = 0;

    memcpy(&value, from + offset, bytes);
    return value;
}

static void put(uint8_t *to, size_t offset, uint64_t value, size_t bytes)
{
    memcpy(to + offset, &value, bytes);
}

bool loader_is_bzimage(const struct loader_blob *image)
{
    return size_range_within(HEADER_MAGIC, sizeof(header_magic), image->bytes) &&
           memcmp((const uint8_t *)image->data + HEADER_MAGIC, header_magic,
                  sizeof(header_magic)) == 0;
}

static int check_header(const struct bzimage *image, struct error *err)
{
    const char *name = image->file->name;
    const uint8_t *data = image->data;
    unsigned version;

    if (image->file->bytes < HEADER_END)
        return error_set(err, ENOEXEC, "%s: a bzImage that is truncated in its setup header", name);
    version = (unsigned)field(data, VERSION, 2);
    if (field(data, BOOT_FLAG, 2) != BOOT_FLAG_VALUE)
        return error_set(err, ENOEXEC, "%s: a bzImage with boot flag 0x%04x, not 0xaa55", name,
                         (unsigned)field(data, BOOT_FLAG, 2));
    if (version < MIN_VERSION)
        return error_set(err, ENOEXEC,
                         "%s: a bzImage of boot protocol %u.%02u; 2.12 (Linux 3.8) or newer has a "
                         "64-bit entry",
                         name, version >> 8, version & 0xff);
    if (!(field(data, XLOADFLAGS, 2) & KERNEL_64) || !(field(data, LOADFLAGS, 1) & LOADED_HIGH))
        return error_set(err, ENOEXEC, "%s: a bzImage of a 32-bit kernel, without a 64-bit entry",
                         name);
    return 0;
}

static int check_length(struct bzimage *image, struct error *err)
{
    uint64_t sectors = field(image->data, SETUP_SECTS, 1);
    uint64_t kernel_bytes = field(image->data, SYSSIZE, 4) * PARAGRAPH;

    image->setup_bytes = ((sectors ? sectors : DEFAULT_SETUP) + 1) * SECTOR_BYTES;
    if (!kernel_bytes)
        return error_set(err, ENOEXEC, "%s: a bzImage without a kernel (syssize is 0)",
                         image->file->name);
    if (!size_range_within(image->setup_bytes, kernel_bytes, image->file->bytes))
        return error_set(err, ENOEXEC, "%s: truncated: it has %zu bytes, its header says %" PRIu64,
                         image->file->name, image->file->bytes, image->setup_bytes + kernel_bytes);
    return 0;
}

/* Wherever it is loaded, the kernel moves to pref_address at least before it unpacks itself. */
static int check_memory(const struct memory *memory, struct bzimage *image, struct error *err)
{
    uint64_t file_bytes = image->file->bytes - image->setup_bytes;
    char text[16];

    image->gpa = field(image->data, PREF_ADDRESS, 8);
    image->run_bytes = field(image->data, INIT_SIZE, 4);
    if (image->run_bytes < file_bytes)
        image->run_bytes = file_bytes;
    if (image->gpa < LOADER_HIGH_START || image->gpa >= MEMORY_GAP_START)
        return error_set(err, ENOEXEC, "%s: a bzImage that wants to run at 0x%" PRIx64,
                         image->file->name, image->gpa);
    if (!memory_at(memory, image->gpa, image->run_bytes))
        return error_set(err, ENOMEM, "%s: to unpack itself it needs at least %s of guest memory",
                         image->file->name,
                         size_format(image->gpa + image->run_bytes, text, sizeof(text)));
    return 0;
}

static int check_command_line(const struct bzimage *image, const char *bootargs, struct error *err)
{
    uint64_t limit = field(image->data, CMDLINE_SIZE, 4);

    if (strlen(bootargs) <= limit)
        return 0;
    return error_set(err, E2BIG,
                     "%s: the command line has %zu bytes, this kernel takes %" PRIu64 " at most",
                     image->file->name, strlen(bootargs), limit);
}

static int judge(const struct memory *memory, const struct loader_request *request,
                 struct bzimage *image, struct error *err)
{
    int ret = check_header(image, err);

    if (!ret)
        ret = check_length(image, err);
    if (!ret)
        ret = check_command_line(image, request->bootargs, err);
    if (!ret)
        ret = loader_low_check(memory, request, 0, err);
    if (!ret)
        ret = check_memory(memory, image, err);
    if (!ret)
        ret = loader_initrd_place(memory, request, image->gpa + image->run_bytes,
                                  field(image->data, INITRD_MAX, 4) + 1, &image->initrd, err);
    return ret;
}

static void put_e820(const struct memory *memory, uint8_t *params)
{
    struct loader_memmap_range map[LOADER_MEMMAP_MAX];
    unsigned n = loader_memmap(memory, map);

    for (unsigned i = 0; i < n; i++) {
        const struct e820_entry entry = {map[i].gpa, map[i].bytes, map[i].type};

        memcpy(params + E820_TABLE + i * sizeof(entry), &entry, sizeof(entry));
    }
    put(params, E820_ENTRIES, n, 1);
}

static int write_params(struct memory *memory, const struct loader_request *request,
                        const struct bzimage *image, struct error *err)
{
    uint8_t params[BOOT_PARAMS_BYTES] = {0};
    size_t header_end = HEADER_MAGIC + (size_t)field(image->data, JUMP_OFFSET, 1);
    int ret;

    header_end = header_end < HEADER_END ? header_end : HEADER_END;
    memcpy(params + SETUP_SECTS, image->data + SETUP_SECTS, header_end - SETUP_SECTS);
    put(params, TYPE_OF_LOADER, UNKNOWN_LOADER, 1);
    put(params, VID_MODE, NORMAL_VIDEO_MODE, 2);
    put(params, CMD_LINE_PTR, LOADER_CMDLINE, 4);
    put(params, RAMDISK_IMAGE, image->initrd, 4);
    put(params, RAMDISK_SIZE, request->initrd.bytes, 4);
    put(params, ACPI_RSDP, request->acpi.bytes ? LOADER_ACPI_GPA : 0, 8);
    put_e820(memory, params);
    ret = memory_write(memory, LOADER_BOOT_PARAMS, params, sizeof(params));
    return ret ? error_set(err, -ret, "boot parameters do not fit into guest memory") : 0;
}

int loader_load_bzimage(struct memory *memory, const struct loader_request *request,
                        struct loader_entry *entry, struct error *err)
{
    struct bzimage image = {.file = &request->kernel, .data = request->kernel.data};
    int ret = judge(memory, request, &image, err);

    if (ret)
        return ret;
    ret = memory_write(memory, image.gpa, image.data + image.setup_bytes,
                       image.file->bytes - image.setup_bytes);
    if (ret)
        return error_set(err, -ret, "%s: does not fit into guest memory", image.file->name);
    ret = loader_initrd_write(memory, request, image.initrd, err);
    if (!ret)
        ret = loader_low_write(memory, request, err);
    if (!ret)
        ret = write_params(memory, request, &image, err);
    if (!ret)
        ret = loader_long_write(memory, entry, err);
    entry->address = image.gpa + ENTRY_64_OFFSET;
    entry->info = LOADER_BOOT_PARAMS;
    return ret;
}
