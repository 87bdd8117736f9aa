/* SPDX-License-Identifier: MIT
 *
 * Images into guest RAM. Every byte of an image is hostile: ranges are checked before anything is
 * copied, so that a refused image has changed nothing. */
#ifndef VMM_LOADER_H
#define VMM_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/memory.h"

enum loader_entry_mode {
    LOADER_REAL_MODE, /* CS:IP at the address */
    LOADER_PROTECTED, /* 32-bit, flat segments, paging off: Xen PVH boot ABI, Multiboot 3.2 */
    LOADER_LONG,      /* 64-bit, the first 4 GiB mapped one to one: Linux x86 boot protocol */
};

struct loader_entry {
    enum loader_entry_mode mode;
    gpa_t address;
    uint32_t eax;        /* protected: Multiboot's magic number, else 0 */
    gpa_t info;          /* EBX in protected mode: start_info or Multiboot's structure; RSI in long
                            mode: boot_params; 0 in real mode */
    gpa_t gdt, page_map; /* long mode: what CR3 and GDTR point to */
};

/* A file in host memory; borrowed. bytes 0: there is none. */
struct loader_blob {
    const char *name; /* for messages */
    const void *data;
    size_t bytes;
};

#define LOADER_ADDRESS_NONE UINT64_MAX

/* What is to be put into RAM. All borrowed. */
struct loader_request {
    struct loader_blob kernel, initrd;
    uint64_t load_address; /* of a flat image; LOADER_ADDRESS_NONE: the image says by itself */
    const char *bootargs;
    struct loader_blob tree; /* for an image that asks for it (guest/abi.h) */
    struct loader_blob acpi; /* tables for LOADER_ACPI_GPA, the RSDP first; not for flat images */
};

/* Where the ACPI tables go: between the video hole and 1 MiB, where nobody takes it for RAM. */
#define LOADER_ACPI_GPA       0xe0000u
#define LOADER_ACPI_MAX_BYTES 0x10000u

/* Knows a Linux bzImage (64-bit boot protocol, 2.12 or newer), ELF files of 32 and 64 bits with an
 * XEN_ELFNOTE_PHYS32_ENTRY note or a Multiboot header, other files with a Multiboot header that
 * tells addresses, and flat images. Refuses with one line that names what is wrong or what was
 * found instead (script, gzip …): -ENOEXEC for a bad file, -ENOMEM where something does not fit
 * into RAM, -E2BIG for a command line that the kernel would cut off, -EINVAL for a request that the
 * format has no way to meet. */
int loader_load(struct memory *memory, const struct loader_request *request,
                struct loader_entry *entry, struct error *err);

#endif
