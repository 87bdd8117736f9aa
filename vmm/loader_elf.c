/* SPDX-License-Identifier: MIT
 *
 * ELF files of 32 and 64 bits with a PVH entry note, or else a Multiboot header. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_elf.h"
#include "vmm/loader_internal.h"
#include "vmm/loader_multiboot.h"

static bool is_load(const Elf64_Phdr *p)
{
    return p->p_type == PT_LOAD && p->p_memsz;
}

static int check_segment(const struct elf *elf, size_t index, const struct memory *memory,
                         const struct loader_request *request)
{
    const Elf64_Phdr *p = &elf->program[index];
    size_t tree_bytes = elf->wants_fdt ? request->tree.bytes : 0;

    if (!memory_at(memory, p->p_paddr, p->p_memsz))
        return error_set(elf->err, ENOMEM,
                         "%s: segment %zu at 0x%" PRIx64 " of 0x%" PRIx64
                         " bytes lies outside guest RAM",
                         elf->name, index, p->p_paddr, p->p_memsz);
    if (loader_hits_low_structures(request, p->p_paddr, p->p_memsz, tree_bytes))
        return error_set(elf->err, ENOEXEC,
                         "%s: segment %zu at 0x%" PRIx64
                         " overlaps the boot structures between 0x%x and 0x%x",
                         elf->name, index, p->p_paddr, LOADER_START_INFO, LOADER_HIGH_START);
    for (size_t i = 0; i < index; i++) {
        const Elf64_Phdr *q = &elf->program[i];
        if (is_load(q) && p->p_paddr < q->p_paddr + q->p_memsz &&
            q->p_paddr < p->p_paddr + p->p_memsz)
            return error_set(elf->err, ENOEXEC, "%s: segments %zu and %zu overlap", elf->name, i,
                             index);
    }
    return 0;
}

/* Asked before the segments: those of an ordinary program lie anywhere, and that is not what is
 * wrong with it. */
static int require_entry(struct elf *elf, bool multiboot)
{
    if (!elf->has_entry && !multiboot)
        return error_set(
            elf->err, ENOEXEC,
            "%s: no PVH entry note (XEN_ELFNOTE_PHYS32_ENTRY; for Linux, CONFIG_PVH=y adds it) and "
            "no Multiboot header%s",
            elf->name,
            loader_multiboot2_header(elf->image, elf->bytes) ? ", only a Multiboot2 header" : "");
    if (!elf->has_entry)
        elf->entry = elf->header.e_entry;
    return 0;
}

static int check_entry(const struct elf *elf)
{
    for (size_t i = 0; elf->entry < LOADER_4GIB && i < elf->nprograms; i++) {
        const Elf64_Phdr *p = &elf->program[i];
        if (is_load(p) && elf->entry >= p->p_paddr && elf->entry - p->p_paddr < p->p_filesz)
            return 0;
    }
    return error_set(elf->err, ENOEXEC, "%s: the %s entry 0x%" PRIx64 " is in no loaded segment",
                     elf->name, elf->has_entry ? "PVH" : "ELF", elf->entry);
}

static int check_segments(const struct elf *elf, const struct memory *memory,
                          const struct loader_request *request)
{
    int ret = 0;

    for (size_t i = 0; !ret && i < elf->nprograms; i++) {
        if (is_load(&elf->program[i]))
            ret = check_segment(elf, i, memory, request);
    }
    return ret ? ret : check_entry(elf);
}

/* Where an initrd may begin: after all of the image that lies in the RAM below the gap. */
static gpa_t image_end(const struct elf *elf)
{
    gpa_t end = 0;

    for (size_t i = 0; i < elf->nprograms; i++) {
        const Elf64_Phdr *p = &elf->program[i];

        if (is_load(p) && p->p_paddr < MEMORY_GAP_START && p->p_paddr + p->p_memsz > end)
            end = p->p_paddr + p->p_memsz;
    }
    return end;
}

/* Only file bytes are copied. What a segment has beyond them must read as zero, and does: images go
 * into RAM that nobody has touched, and segments do not overlap. Writing zeros would allocate all
 * of it. */
static int copy_segments(const struct elf *elf, struct memory *memory)
{
    for (size_t i = 0; i < elf->nprograms; i++) {
        const Elf64_Phdr *p = &elf->program[i];
        int result;

        if (!is_load(p))
            continue;
        result = memory_write(memory, p->p_paddr, elf->image + p->p_offset, p->p_filesz);
        if (result)
            return error_set(elf->err, -result, "%s: segment %zu: %s", elf->name, i,
                             strerror(-result));
    }
    return 0;
}

static int judge(const struct elf *elf, const struct memory *memory,
                 const struct loader_request *request, gpa_t *initrd)
{
    int ret = check_segments(elf, memory, request);

    if (!ret)
        ret = loader_low_check(memory, request, elf->wants_fdt ? request->tree.bytes : 0, elf->err);
    if (!ret)
        ret = loader_initrd_place(memory, request, image_end(elf), LOADER_4GIB, initrd, elf->err);
    return ret;
}

static int load(struct elf *elf, struct memory *memory, const struct loader_request *request,
                struct loader_entry *entry)
{
    gpa_t initrd = 0;
    int ret = judge(elf, memory, request, &initrd);

    if (!ret)
        ret = copy_segments(elf, memory);
    if (!ret)
        ret = loader_initrd_write(memory, request, initrd, elf->err);
    if (!ret)
        ret = loader_low_write(memory, request, elf->err);
    if (!ret && elf->has_entry)
        ret = loader_pvh_write(memory, request, elf->wants_fdt, initrd, elf->err);
    else if (!ret)
        ret = loader_multiboot_write(memory, request, initrd, elf->err);
    entry->mode = LOADER_PROTECTED;
    entry->address = elf->entry;
    entry->eax = elf->has_entry ? 0 : LOADER_MULTIBOOT_EAX;
    entry->info = LOADER_START_INFO;
    return ret;
}

int loader_load_elf(struct memory *memory, const struct loader_request *request,
                    struct loader_entry *entry, struct error *err)
{
    struct elf *elf = calloc(1, sizeof(*elf));
    struct loader_multiboot multiboot;
    bool has_multiboot;
    int ret;

    if (!elf)
        return error_set(err, ENOMEM, "%s: no memory to load it", request->kernel.name);
    elf->name = request->kernel.name;
    elf->image = request->kernel.data;
    elf->bytes = request->kernel.bytes;
    elf->err = err;
    ret = loader_elf_read(elf);
    has_multiboot = !ret && !elf->has_entry && loader_multiboot_find(&request->kernel, &multiboot);
    if (!ret && has_multiboot)
        ret = loader_multiboot_check(&request->kernel, &multiboot, err);
    if (!ret)
        ret = require_entry(elf, has_multiboot);
    /* Addresses in a Multiboot header hold instead of those of the ELF file (section 3.1.2). */
    if (!ret && has_multiboot && loader_multiboot_addresses(&multiboot))
        ret = loader_load_multiboot(memory, request, &multiboot, entry, err);
    else if (!ret)
        ret = load(elf, memory, request, entry);
    free(elf);
    return ret;
}
