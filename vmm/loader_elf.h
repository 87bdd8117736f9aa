/* SPDX-License-Identifier: MIT
 *
 * An ELF file as its reader leaves it for its loader. Internal to loader_elf*.c. */
#ifndef VMM_LOADER_ELF_H
#define VMM_LOADER_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

#define ELF_MAX_PROGRAM_HEADERS 128

struct elf {
    const char *name;
    const uint8_t *image;
    size_t bytes;
    struct error *err;
    bool narrow; /* a file of 32 bits; the headers here are widened */
    size_t program_bytes;
    Elf64_Ehdr header; /* what a loader needs of it */
    Elf64_Phdr program[ELF_MAX_PROGRAM_HEADERS];
    size_t nprograms;
    bool has_entry; /* a PVH note says: */
    uint64_t entry;
    bool wants_fdt; /* our own note */
};

/* Reads all headers and notes; name, image, bytes and err are set already. File ranges of segments
 * to load and of notes are checked then, addresses are not. */
int loader_elf_read(struct elf *elf);

#endif
