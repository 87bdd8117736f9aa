/* SPDX-License-Identifier: MIT
 *
 * A small ELF image that the loader accepts, laid out so that a test can bend any field, and RAM to
 * load it into. */
#ifndef TESTS_UNIT_LOADER_IMAGE_H
#define TESTS_UNIT_LOADER_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/loader.h"
#include "vmm/memory.h"

#define LOAD_GPA   0x100000u
#define BSS_BYTES  0x3000u
#define TEXT_BYTES 64u
#define LOW_PAGES  1024u /* 4 MiB */
#define NAME       "image"

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr program[4]; /* load, note, second load, unused */
    struct {
        Elf64_Nhdr xen;
        char xen_name[4];
        uint32_t entry;
        Elf64_Nhdr ours;
        char our_name[12];
    } note;
    uint8_t text[TEXT_BYTES];
};

void loader_image_make(struct image *image);

/* 4 MiB from 0 and 64 KiB from 4 GiB. */
void loader_image_memory(struct memory *memory);

/* The command line "hello", the device tree "tree", ACPI tables of 8 bytes, no initrd. */
struct loader_request loader_image_request(const void *image, size_t bytes);

/* Loads an exact copy of the bytes with such a request. */
int loader_image_load(struct memory *memory, const void *image, size_t bytes, struct error *err);

/* Has no page been written? */
bool loader_image_untouched(const struct memory *memory);

#endif
