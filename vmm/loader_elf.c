/* SPDX-License-Identifier: MIT
 *
 * ELF64 files with a PVH entry note. The whole file is judged before the first byte is copied, so a
 * refused image has changed nothing. */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi.h"
#include "vmm/base/size.h"
#include "vmm/loader_internal.h"

/* Xen xen/include/public/elfnote.h: the 32-bit physical entry point of a PVH kernel. */
#define XEN_NOTE_OWNER        "Xen"
#define XEN_NOTE_PHYS32_ENTRY 18

#define MAX_PROGRAM_HEADERS 128

struct elf {
    const char *name;
    const uint8_t *image;
    size_t bytes;
    struct error *err;
    Elf64_Ehdr header;
    Elf64_Phdr program[MAX_PROGRAM_HEADERS];
    size_t nprograms;
    bool has_entry;
    uint64_t entry;
    bool wants_fdt;
};

static int check_header(struct elf *elf)
{
    const char *foreign = loader_foreign_format(elf->image, elf->bytes);
    const Elf64_Ehdr *h = &elf->header;

    if (foreign)
        return error_set(elf->err, ENOEXEC, "%s: %s, not a 64-bit ELF file with a PVH note",
                         elf->name, foreign);
    if (elf->bytes < sizeof(*h))
        return error_set(elf->err, ENOEXEC, "%s: truncated in the ELF header", elf->name);
    memcpy(&elf->header, elf->image, sizeof(*h));
    if (h->e_ident[EI_CLASS] != ELFCLASS64)
        return error_set(elf->err, ENOEXEC, "%s: ELF class %u, not 64-bit", elf->name,
                         h->e_ident[EI_CLASS]);
    if (h->e_ident[EI_DATA] != ELFDATA2LSB)
        return error_set(elf->err, ENOEXEC, "%s: a big-endian ELF file", elf->name);
    if (h->e_machine != EM_X86_64)
        return error_set(elf->err, ENOEXEC, "%s: an ELF file for machine %u, not x86-64 (%u)",
                         elf->name, h->e_machine, EM_X86_64);
    if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
        return error_set(elf->err, ENOEXEC, "%s: ELF type %u, not an executable", elf->name,
                         h->e_type);
    return 0;
}

static int read_program_headers(struct elf *elf)
{
    const Elf64_Ehdr *h = &elf->header;
    uint64_t table_bytes = (uint64_t)h->e_phnum * sizeof(Elf64_Phdr);

    if (!h->e_phnum)
        return error_set(elf->err, ENOEXEC, "%s: no program headers", elf->name);
    if (h->e_phnum > MAX_PROGRAM_HEADERS)
        return error_set(elf->err, ENOEXEC, "%s: %u program headers, at most %d are accepted",
                         elf->name, h->e_phnum, MAX_PROGRAM_HEADERS);
    if (h->e_phentsize != sizeof(Elf64_Phdr))
        return error_set(elf->err, ENOEXEC, "%s: program headers of %u bytes, not %zu", elf->name,
                         h->e_phentsize, sizeof(Elf64_Phdr));
    if (!size_range_within(h->e_phoff, table_bytes, elf->bytes))
        return error_set(elf->err, ENOEXEC,
                         "%s: program headers at 0x%" PRIx64 " lie outside the file", elf->name,
                         h->e_phoff);
    elf->nprograms = h->e_phnum;
    memcpy(elf->program, elf->image + h->e_phoff, (size_t)table_bytes);
    return 0;
}

static bool is_load(const Elf64_Phdr *p)
{
    return p->p_type == PT_LOAD && p->p_memsz;
}

static int check_file_range(const struct elf *elf, size_t index)
{
    const Elf64_Phdr *p = &elf->program[index];

    if (p->p_filesz > p->p_memsz && p->p_type == PT_LOAD)
        return error_set(elf->err, ENOEXEC,
                         "%s: segment %zu has more bytes in the file (0x%" PRIx64
                         ") than in memory (0x%" PRIx64 ")",
                         elf->name, index, p->p_filesz, p->p_memsz);
    if (!size_range_within(p->p_offset, p->p_filesz, elf->bytes))
        return error_set(elf->err, ENOEXEC, "%s: truncated: segment %zu ends outside the file",
                         elf->name, index);
    return 0;
}

static int check_segment(const struct elf *elf, size_t index, const struct memory *memory,
                         size_t fdt_bytes)
{
    const Elf64_Phdr *p = &elf->program[index];

    if (!memory_at(memory, p->p_paddr, p->p_memsz))
        return error_set(elf->err, ENOMEM,
                         "%s: segment %zu at 0x%" PRIx64 " of 0x%" PRIx64
                         " bytes lies outside guest RAM",
                         elf->name, index, p->p_paddr, p->p_memsz);
    if (loader_hits_low_structures(p->p_paddr, p->p_memsz, fdt_bytes))
        return error_set(
            elf->err, ENOEXEC,
            "%s: segment %zu at 0x%" PRIx64 " overlaps the boot structures from 0x%x to 0x%x",
            elf->name, index, p->p_paddr, LOADER_START_INFO, LOADER_FDT + LOADER_FDT_MAX_BYTES);
    for (size_t i = 0; i < index; i++) {
        const Elf64_Phdr *q = &elf->program[i];
        if (is_load(q) && p->p_paddr < q->p_paddr + q->p_memsz &&
            q->p_paddr < p->p_paddr + p->p_memsz)
            return error_set(elf->err, ENOEXEC, "%s: segments %zu and %zu overlap", elf->name, i,
                             index);
    }
    return 0;
}

static int take_note(struct elf *elf, const Elf64_Nhdr *note, const uint8_t *owner,
                     const uint8_t *value)
{
    uint64_t entry = 0;

    if (note->n_namesz == sizeof(GUEST_NOTE_OWNER) && note->n_type == GUEST_NOTE_DEVICE_TREE &&
        memcmp(owner, GUEST_NOTE_OWNER, sizeof(GUEST_NOTE_OWNER)) == 0)
        elf->wants_fdt = true;
    if (note->n_namesz != sizeof(XEN_NOTE_OWNER) || note->n_type != XEN_NOTE_PHYS32_ENTRY ||
        memcmp(owner, XEN_NOTE_OWNER, sizeof(XEN_NOTE_OWNER)) != 0)
        return 0;
    if (note->n_descsz != 4 && note->n_descsz != 8)
        return error_set(elf->err, ENOEXEC, "%s: the PVH note has %u bytes, not 4 or 8", elf->name,
                         note->n_descsz);
    memcpy(&entry, value, note->n_descsz); /* little-endian like this host */
    if (elf->has_entry && elf->entry != entry)
        return error_set(elf->err, ENOEXEC, "%s: two PVH notes that differ", elf->name);
    elf->has_entry = true;
    elf->entry = entry;
    return 0;
}

/* Walks one PT_NOTE segment, whose range in the file is known to be good. */
static int read_notes(struct elf *elf, const Elf64_Phdr *p)
{
    const uint8_t *data = elf->image + p->p_offset;
    /* Names and values are padded to 4 bytes, in segments of 8-byte alignment to 8. */
    uint64_t align = p->p_align == 8 ? 8 : 4;
    uint64_t at = 0;

    while (at < p->p_filesz) {
        Elf64_Nhdr note;
        uint64_t owner;
        uint64_t value;
        int result;

        if (!size_range_within(at, sizeof(note), p->p_filesz))
            return error_set(elf->err, ENOEXEC, "%s: truncated note", elf->name);
        memcpy(&note, data + at, sizeof(note));
        /* The lengths have 32 bits: these sums cannot wrap. */
        owner = at + sizeof(note);
        value = (owner + note.n_namesz + align - 1) / align * align;
        if (!size_range_within(owner, note.n_namesz, p->p_filesz) ||
            !size_range_within(value, note.n_descsz, p->p_filesz))
            return error_set(elf->err, ENOEXEC, "%s: a note reaches beyond its segment", elf->name);
        result = take_note(elf, &note, data + owner, data + value);
        if (result)
            return result;
        at = (value + note.n_descsz + align - 1) / align * align;
    }
    return 0;
}

/* Asked before the segments: those of an ordinary program lie anywhere, and that is not what is
 * wrong with it. */
static int require_entry(const struct elf *elf)
{
    if (elf->has_entry)
        return 0;
    return error_set(
        elf->err, ENOEXEC, "%s: no PVH entry note (XEN_ELFNOTE_PHYS32_ENTRY)%s", elf->name,
        loader_has_multiboot(elf->image, elf->bytes) ? ", only a multiboot header"
                                                     : ": for Linux, CONFIG_PVH=y adds it");
}

static int check_entry(const struct elf *elf)
{
    for (size_t i = 0; elf->entry < LOADER_4GIB && i < elf->nprograms; i++) {
        const Elf64_Phdr *p = &elf->program[i];
        if (is_load(p) && elf->entry >= p->p_paddr && elf->entry - p->p_paddr < p->p_filesz)
            return 0;
    }
    return error_set(elf->err, ENOEXEC, "%s: the PVH entry 0x%" PRIx64 " is in no loaded segment",
                     elf->name, elf->entry);
}

static int judge(struct elf *elf, const struct memory *memory, size_t fdt_bytes)
{
    int result = check_header(elf);

    if (!result)
        result = read_program_headers(elf);
    /* Notes first, wherever they stand: they say whether the tree takes up room. */
    for (size_t i = 0; !result && i < elf->nprograms; i++) {
        const Elf64_Phdr *p = &elf->program[i];

        if (p->p_type == PT_LOAD || p->p_type == PT_NOTE)
            result = check_file_range(elf, i);
        if (!result && p->p_type == PT_NOTE)
            result = read_notes(elf, p);
    }
    if (!result)
        result = require_entry(elf);
    for (size_t i = 0; !result && i < elf->nprograms; i++) {
        if (is_load(&elf->program[i]))
            result = check_segment(elf, i, memory, elf->wants_fdt ? fdt_bytes : 0);
    }
    return result ? result : check_entry(elf);
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

int loader_load_elf(struct memory *memory, const char *name, const void *image, size_t image_bytes,
                    const char *bootargs, const void *fdt, size_t fdt_bytes,
                    struct loader_entry *entry, struct error *err)
{
    struct elf *elf = calloc(1, sizeof(*elf));
    int result;

    if (!elf)
        return error_set(err, ENOMEM, "%s: no memory to load it", name);
    elf->name = name;
    elf->image = image;
    elf->bytes = image_bytes;
    elf->err = err;
    result = judge(elf, memory, fdt_bytes);
    if (result)
        goto out;
    if (!elf->wants_fdt)
        fdt_bytes = 0;
    result = loader_pvh_check(memory, name, bootargs, fdt_bytes, err);
    if (!result)
        result = copy_segments(elf, memory);
    if (!result)
        result = loader_pvh_write(memory, bootargs, fdt, fdt_bytes, err);
    if (result)
        goto out;
    entry->mode = LOADER_PVH;
    entry->address = elf->entry;
    entry->start_info = LOADER_START_INFO;
out:
    free(elf);
    return result;
}
