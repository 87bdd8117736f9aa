/* SPDX-License-Identifier: MIT */
#include "vmm/loader_multiboot.h"

#include <errno.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_internal.h"

/* Section 3.1.1. */
#define MAGIC          0x1badb002u
#define SEARCH_BYTES   8192u
#define HEADER_BYTES   12u
#define ADDRESS_BYTES  20u
#define FLAG_VIDEO     (1u << 2)
#define FLAG_ADDRESSES (1u << 16)
/* Pages for modules and what is known of memory are there always; bits 0…15 are requirements. */
#define FLAGS_MET      (1u << 0 | 1u << 1)
#define FLAGS_REQUIRED 0xffffu

#define MULTIBOOT2_MAGIC        0xe85250d6u
#define MULTIBOOT2_SEARCH_BYTES 32768u
#define MULTIBOOT2_HEADER_BYTES 16u

/* Section 3.3, as far as it is filled. */
#define INFO_MEMORY  (1u << 0)
#define INFO_CMDLINE (1u << 2)
#define INFO_MODULES (1u << 3)
#define INFO_MEMMAP  (1u << 6)
#define INFO_NAME    (1u << 9)
#define KIB          1024u

struct info {
    uint32_t flags, mem_lower, mem_upper, boot_device, cmdline, mods_count, mods_addr, syms[4];
    uint32_t mmap_length, mmap_addr, drives_length, drives_addr, config_table, boot_loader_name;
};

struct module {
    uint32_t start, end, string, reserved;
};

/* `size` does not count itself. */
struct memmap_entry {
    uint32_t size;
    uint32_t address[2], bytes[2];
    uint32_t type;
};

static const char boot_loader_name[] = "pageferry";

#define INFO_MODULE LOADER_MODULE_NAME
#define INFO_LOADER (INFO_MODULE + sizeof(struct module))

_Static_assert(LOADER_START_INFO + sizeof(struct info) <= INFO_MODULE, "the module has a place");
_Static_assert(INFO_LOADER + sizeof(boot_loader_name) <= LOADER_MEMMAP, "so has the name");
_Static_assert(LOADER_MEMMAP + LOADER_MEMMAP_MAX * sizeof(struct memmap_entry) <= LOADER_GDT,
               "so has the memory map");

static uint32_t load32(const uint8_t *data)
{
    return (uint32_t)data[3] << 24 | (uint32_t)data[2] << 16 | (uint32_t)data[1] << 8 | data[0];
}

static void take_addresses(struct loader_multiboot *header, const uint8_t *data)
{
    header->header_gpa = load32(data);
    header->load_gpa = load32(data + 4);
    header->load_end = load32(data + 8);
    header->bss_end = load32(data + 12);
    header->entry = load32(data + 16);
}

bool loader_multiboot_find(const struct loader_blob *image, struct loader_multiboot *header)
{
    const uint8_t *data = image->data;
    uint64_t limit = image->bytes < SEARCH_BYTES ? image->bytes : SEARCH_BYTES;

    for (uint64_t at = 0; size_range_within(at, HEADER_BYTES, limit); at += 4) {
        uint32_t flags = load32(data + at + 4);

        if (load32(data + at) != MAGIC || MAGIC + flags + load32(data + at + 8) != 0)
            continue;
        *header = (struct loader_multiboot){.at = at, .flags = flags};
        if (flags & FLAG_ADDRESSES) {
            if (!size_range_within(at + HEADER_BYTES, ADDRESS_BYTES, image->bytes))
                continue;
            take_addresses(header, data + at + HEADER_BYTES);
        }
        return true;
    }
    return false;
}

bool loader_multiboot2_header(const void *image, size_t bytes)
{
    const uint8_t *data = image;
    size_t limit = bytes < MULTIBOOT2_SEARCH_BYTES ? bytes : MULTIBOOT2_SEARCH_BYTES;

    for (size_t at = 0; size_range_within(at, MULTIBOOT2_HEADER_BYTES, limit); at += 8) {
        if (load32(data + at) == MULTIBOOT2_MAGIC && MULTIBOOT2_MAGIC + load32(data + at + 4) +
                                                             load32(data + at + 8) +
                                                             load32(data + at + 12) ==
                                                         0)
            return true;
    }
    return false;
}

bool loader_multiboot_addresses(const struct loader_multiboot *header)
{
    return header->flags & FLAG_ADDRESSES;
}

int loader_multiboot_check(const struct loader_blob *image, const struct loader_multiboot *header,
                           struct error *err)
{
    uint32_t missing = header->flags & FLAGS_REQUIRED & ~FLAGS_MET;

    if (!missing)
        return 0;
    if (missing == FLAG_VIDEO)
        return error_set(err, ENOEXEC,
                         "%s: its Multiboot header requires a video mode, and there is no display: "
                         "clear bit 2 of its flags",
                         image->name);
    return error_set(err, ENOEXEC, "%s: its Multiboot header requires unknown features 0x%x",
                     image->name, missing);
}

/* Where the file's bytes go, by the header's own addresses (section 3.1.3). */
struct span {
    uint64_t file, gpa, file_bytes, bytes;
};

static int find_span(const struct loader_blob *image, const struct loader_multiboot *h,
                     struct span *span, struct error *err)
{
    uint64_t before = (uint64_t)h->header_gpa - h->load_gpa;

    if (h->load_gpa > h->header_gpa || before > h->at)
        return error_set(err, ENOEXEC,
                         "%s: Multiboot header: it lies at 0x%x, before load_addr 0x%x or further "
                         "behind it than in the file",
                         image->name, h->header_gpa, h->load_gpa);
    span->file = h->at - before;
    span->gpa = h->load_gpa;
    span->file_bytes = image->bytes - span->file;
    if (h->load_end &&
        (h->load_end < h->load_gpa || (uint64_t)h->load_end - h->load_gpa > span->file_bytes))
        return error_set(err, ENOEXEC,
                         "%s: truncated: its Multiboot header says that it ends at 0x%x",
                         image->name, h->load_end);
    if (h->load_end)
        span->file_bytes = h->load_end - h->load_gpa;
    span->bytes = span->file_bytes;
    if (h->bss_end && h->bss_end < span->gpa + span->file_bytes)
        return error_set(err, ENOEXEC,
                         "%s: Multiboot header: bss_end_addr 0x%x lies in front of the data's end",
                         image->name, h->bss_end);
    if (h->bss_end)
        span->bytes = h->bss_end - span->gpa;
    if (h->entry < span->gpa || h->entry - span->gpa >= span->file_bytes)
        return error_set(err, ENOEXEC, "%s: the Multiboot entry 0x%x is not in what is loaded",
                         image->name, h->entry);
    return 0;
}

static int judge(const struct memory *memory, const struct loader_request *request,
                 const struct loader_multiboot *header, struct span *span, gpa_t *initrd,
                 struct error *err)
{
    const struct loader_blob *image = &request->kernel;
    int ret = loader_multiboot_check(image, header, err);

    if (!ret)
        ret = find_span(image, header, span, err);
    if (!ret && !memory_at(memory, span->gpa, span->bytes))
        ret = error_set(err, ENOMEM, "%s: 0x%llx bytes at 0x%llx are not all RAM", image->name,
                        (unsigned long long)span->bytes, (unsigned long long)span->gpa);
    if (!ret && loader_hits_low_structures(request, span->gpa, span->bytes, 0))
        ret = error_set(
            err, ENOEXEC, "%s: at 0x%llx it overlaps the boot structures between 0x%x and 0x%x",
            image->name, (unsigned long long)span->gpa, LOADER_START_INFO, LOADER_HIGH_START);
    if (!ret)
        ret = loader_low_check(memory, request, 0, err);
    if (!ret)
        ret =
            loader_initrd_place(memory, request, span->gpa + span->bytes, LOADER_4GIB, initrd, err);
    return ret;
}

int loader_load_multiboot(struct memory *memory, const struct loader_request *request,
                          const struct loader_multiboot *header, struct loader_entry *entry,
                          struct error *err)
{
    struct span span = {0};
    gpa_t initrd = 0;
    int ret = judge(memory, request, header, &span, &initrd, err);

    if (ret)
        return ret;
    ret = memory_write(memory, span.gpa, (const uint8_t *)request->kernel.data + span.file,
                       span.file_bytes);
    if (ret)
        return error_set(err, -ret, "%s: does not fit into guest memory", request->kernel.name);
    ret = loader_initrd_write(memory, request, initrd, err);
    if (!ret)
        ret = loader_low_write(memory, request, err);
    if (!ret)
        ret = loader_multiboot_write(memory, request, initrd, err);
    entry->mode = LOADER_PROTECTED;
    entry->address = header->entry;
    entry->eax = LOADER_MULTIBOOT_EAX;
    entry->info = LOADER_START_INFO;
    return ret;
}

static uint32_t fill_memmap(const struct memory *memory, struct memmap_entry *entries)
{
    struct loader_memmap_range map[LOADER_MEMMAP_MAX];
    unsigned n = loader_memmap(memory, map);

    for (unsigned i = 0; i < n; i++)
        entries[i] = (struct memmap_entry){
            .size = sizeof(*entries) - sizeof(entries->size),
            .address = {(uint32_t)map[i].gpa, (uint32_t)(map[i].gpa >> 32)},
            .bytes = {(uint32_t)map[i].bytes, (uint32_t)(map[i].bytes >> 32)},
            .type = map[i].type,
        };
    return n * (uint32_t)sizeof(*entries);
}

int loader_multiboot_write(struct memory *memory, const struct loader_request *request,
                           gpa_t initrd, struct error *err)
{
    struct memmap_entry map[LOADER_MEMMAP_MAX];
    const struct module module = {.start = (uint32_t)initrd,
                                  .end = (uint32_t)(initrd + request->initrd.bytes)};
    const struct info info = {
        .flags = INFO_MEMORY | INFO_CMDLINE | INFO_MODULES | INFO_MEMMAP | INFO_NAME,
        .mem_lower = LOADER_LOW_END / KIB,
        .mem_upper =
            (uint32_t)((memory->region[0].npages * MEMORY_PAGE_BYTES - LOADER_HIGH_START) / KIB),
        .cmdline = LOADER_CMDLINE,
        .mods_count = request->initrd.bytes ? 1 : 0,
        .mods_addr = INFO_MODULE,
        .mmap_length = fill_memmap(memory, map),
        .mmap_addr = LOADER_MEMMAP,
        .boot_loader_name = INFO_LOADER,
    };
    int ret = memory_write(memory, LOADER_START_INFO, &info, sizeof(info));

    if (!ret)
        ret = memory_write(memory, INFO_MODULE, &module, sizeof(module));
    if (!ret)
        ret = memory_write(memory, INFO_LOADER, boot_loader_name, sizeof(boot_loader_name));
    if (!ret)
        ret = memory_write(memory, LOADER_MEMMAP, map, info.mmap_length);
    return ret ? error_set(err, -ret, "Multiboot's structures do not fit into guest memory") : 0;
}
