/* SPDX-License-Identifier: MIT
 *
 * What an ELF file of either class says: headers, in the form of 64 bits, and notes. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/abi.h"
#include "vmm/base/size.h"
#include "vmm/loader_elf.h"
#include "vmm/loader_internal.h"

/* Xen xen/include/public/elfnote.h: the 32-bit physical entry point of a PVH kernel. */
#define XEN_NOTE_OWNER        "Xen"
#define XEN_NOTE_PHYS32_ENTRY 18

static void widen_header(Elf64_Ehdr *to, const Elf32_Ehdr *from)
{
    memcpy(to->e_ident, from->e_ident, sizeof(to->e_ident));
    to->e_type = from->e_type;
    to->e_machine = from->e_machine;
    to->e_entry = from->e_entry;
    to->e_phoff = from->e_phoff;
    to->e_phentsize = from->e_phentsize;
    to->e_phnum = from->e_phnum;
}

static Elf64_Phdr widen_program(const Elf32_Phdr *from)
{
    return (Elf64_Phdr){.p_type = from->p_type,
                        .p_flags = from->p_flags,
                        .p_offset = from->p_offset,
                        .p_vaddr = from->p_vaddr,
                        .p_paddr = from->p_paddr,
                        .p_filesz = from->p_filesz,
                        .p_memsz = from->p_memsz,
                        .p_align = from->p_align};
}

/* The class says how long the header is. */
static int take_header(struct elf *elf)
{
    Elf32_Ehdr narrow;

    if (elf->bytes <= EI_CLASS)
        return error_set(elf->err, ENOEXEC, "%s: truncated in the ELF header", elf->name);
    switch (elf->image[EI_CLASS]) {
    case ELFCLASS32:
        elf->program_bytes = sizeof(Elf32_Phdr);
        break;
    case ELFCLASS64:
        elf->program_bytes = sizeof(Elf64_Phdr);
        break;
    default:
        return error_set(elf->err, ENOEXEC, "%s: ELF class %u, neither 32-bit nor 64-bit",
                         elf->name, elf->image[EI_CLASS]);
    }
    elf->narrow = elf->image[EI_CLASS] == ELFCLASS32;
    if (elf->bytes < (elf->narrow ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr)))
        return error_set(elf->err, ENOEXEC, "%s: truncated in the ELF header", elf->name);
    if (!elf->narrow) {
        memcpy(&elf->header, elf->image, sizeof(elf->header));
        return 0;
    }
    memcpy(&narrow, elf->image, sizeof(narrow));
    widen_header(&elf->header, &narrow);
    return 0;
}

static int check_header(struct elf *elf)
{
    const char *foreign = loader_foreign_format(elf->image, elf->bytes);
    const Elf64_Ehdr *h = &elf->header;
    unsigned machine;
    int ret;

    if (foreign)
        return error_set(elf->err, ENOEXEC,
                         "%s: %s, not a bzImage, an ELF file or a Multiboot image", elf->name,
                         foreign);
    ret = take_header(elf);
    if (ret)
        return ret;
    machine = elf->narrow ? EM_386 : EM_X86_64;
    if (h->e_ident[EI_DATA] != ELFDATA2LSB)
        return error_set(elf->err, ENOEXEC, "%s: a big-endian ELF file", elf->name);
    if (h->e_machine != machine)
        return error_set(elf->err, ENOEXEC, "%s: a %u-bit ELF file for machine %u, not x86 (%u)",
                         elf->name, elf->narrow ? 32 : 64, h->e_machine, machine);
    if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
        return error_set(elf->err, ENOEXEC, "%s: ELF type %u, not an executable", elf->name,
                         h->e_type);
    return 0;
}

static int read_program_headers(struct elf *elf)
{
    const Elf64_Ehdr *h = &elf->header;
    uint64_t table_bytes = (uint64_t)h->e_phnum * elf->program_bytes;

    if (!h->e_phnum)
        return error_set(elf->err, ENOEXEC, "%s: no program headers", elf->name);
    if (h->e_phnum > ELF_MAX_PROGRAM_HEADERS)
        return error_set(elf->err, ENOEXEC, "%s: %u program headers, at most %d are accepted",
                         elf->name, h->e_phnum, ELF_MAX_PROGRAM_HEADERS);
    if (h->e_phentsize != elf->program_bytes)
        return error_set(elf->err, ENOEXEC, "%s: program headers of %u bytes, not %zu", elf->name,
                         h->e_phentsize, elf->program_bytes);
    if (!size_range_within(h->e_phoff, table_bytes, elf->bytes))
        return error_set(elf->err, ENOEXEC,
                         "%s: program headers at 0x%" PRIx64 " lie outside the file", elf->name,
                         h->e_phoff);
    elf->nprograms = h->e_phnum;
    for (size_t i = 0; i < elf->nprograms; i++) {
        const uint8_t *from = elf->image + h->e_phoff + i * elf->program_bytes;
        Elf32_Phdr narrow;

        memcpy(elf->narrow ? (void *)&narrow : (void *)&elf->program[i], from, elf->program_bytes);
        if (elf->narrow)
            elf->program[i] = widen_program(&narrow);
    }
    return 0;
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

/* Notes first, wherever they stand: they say whether the tree takes up room. */
int loader_elf_read(struct elf *elf)
{
    int ret = check_header(elf);

    if (!ret)
        ret = read_program_headers(elf);
    for (size_t i = 0; !ret && i < elf->nprograms; i++) {
        const Elf64_Phdr *p = &elf->program[i];

        if (p->p_type == PT_LOAD || p->p_type == PT_NOTE)
            ret = check_file_range(elf, i);
        if (!ret && p->p_type == PT_NOTE)
            ret = read_notes(elf, p);
    }
    return ret;
}
