/* SPDX-License-Identifier: MIT */
#include "tests/unit/loader_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guest/abi.h"
#include "vmm/base/bitmap.h"

void loader_image_make(struct image *i)
{
    memset(i, 0, sizeof(*i));
    memcpy(i->header.e_ident, ELFMAG, SELFMAG);
    i->header.e_ident[EI_CLASS] = ELFCLASS64;
    i->header.e_ident[EI_DATA] = ELFDATA2LSB;
    i->header.e_type = ET_EXEC;
    i->header.e_machine = EM_X86_64;
    i->header.e_phoff = offsetof(struct image, program);
    i->header.e_phentsize = sizeof(Elf64_Phdr);
    i->header.e_phnum = 2;
    i->program[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_offset = offsetof(struct image, text),
                                 .p_paddr = LOAD_GPA,
                                 .p_filesz = TEXT_BYTES,
                                 .p_memsz = BSS_BYTES};
    i->program[1] = (Elf64_Phdr){.p_type = PT_NOTE,
                                 .p_offset = offsetof(struct image, note),
                                 .p_filesz = sizeof(i->note),
                                 .p_memsz = sizeof(i->note),
                                 .p_align = 4};
    i->program[2] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_offset = offsetof(struct image, text),
                                 .p_paddr = LOAD_GPA + 0x10000,
                                 .p_filesz = 16,
                                 .p_memsz = 16};
    i->note.xen = (Elf64_Nhdr){4, 4, 18};
    memcpy(i->note.xen_name, "Xen", 4);
    i->note.entry = LOAD_GPA + 8;
    i->note.ours = (Elf64_Nhdr){sizeof(GUEST_NOTE_OWNER), 0, GUEST_NOTE_DEVICE_TREE};
    memcpy(i->note.our_name, GUEST_NOTE_OWNER, sizeof(GUEST_NOTE_OWNER));
    for (unsigned n = 0; n < TEXT_BYTES; n++)
        i->text[n] = (uint8_t)(n + 1);
}

void loader_image_memory(struct memory *memory)
{
    static const struct memory_region ranges[] = {{.gpa = 0, .npages = LOW_PAGES},
                                                  {.gpa = 0x100000000ull, .npages = 16}};
    struct error err = {""};

    if (memory_create(memory, ranges, 2, MEMORY_ANON, &err))
        fail_msg("%s", err.text);
}

struct loader_request loader_image_request(const void *image, size_t bytes)
{
    return (struct loader_request){
        .kernel = {NAME, image, bytes},
        .load_address = LOADER_ADDRESS_NONE,
        .bootargs = "hello",
        .tree = {"tree", "tree", 4},
        .acpi = {"tables", "RSD PTR ", 8},
    };
}

int loader_image_load(struct memory *memory, const void *image, size_t bytes, struct error *err)
{
    struct loader_request request;
    struct loader_entry entry;
    /* An exact copy, so that a sanitizer sees a read past the end. */
    uint8_t *copy = malloc(bytes ? bytes : 1);
    int result;

    assert_non_null(copy);
    memcpy(copy, image, bytes);
    err->text[0] = '\0';
    request = loader_image_request(copy, bytes);
    result = loader_load(memory, &request, &entry, err);
    free(copy);
    return result;
}

bool loader_image_untouched(const struct memory *memory)
{
    for (unsigned i = 0; i < memory->nregions; i++) {
        if (bitmap_count(memory->region[i].vmm_dirty, memory->region[i].npages))
            return false;
    }
    return true;
}
