/* SPDX-License-Identifier: MIT
 *
 * Multiboot 1 (Multiboot Specification 0.6.96): the header in an image, and the structure that its
 * kernel is handed. Internal to loader*.c. */
#ifndef VMM_LOADER_MULTIBOOT_H
#define VMM_LOADER_MULTIBOOT_H

#include <stdbool.h>

#include "vmm/loader.h"

/* Section 3.2: what EAX says to the kernel. */
#define LOADER_MULTIBOOT_EAX 0x2badb002u

/* Section 3.1; the addresses are valid with bit 16 of the flags. */
struct loader_multiboot {
    uint64_t at; /* of the header in the file */
    uint32_t flags;
    uint32_t header_gpa, load_gpa, load_end, bss_end, entry;
};

/* The header, where there is one whose checksum is right. */
bool loader_multiboot_find(const struct loader_blob *image, struct loader_multiboot *header);

/* -ENOEXEC where the kernel requires what is not there. */
int loader_multiboot_check(const struct loader_blob *image, const struct loader_multiboot *header,
                           struct error *err);

/* Does the header tell where to load the image? */
bool loader_multiboot_addresses(const struct loader_multiboot *header);

/* Has the image a Multiboot2 header (Multiboot2 Specification 2.0, section 3.1.1)? */
bool loader_multiboot2_header(const void *image, size_t bytes);

/* Loads an image by the addresses in its header. */
int loader_load_multiboot(struct memory *memory, const struct loader_request *request,
                          const struct loader_multiboot *header, struct loader_entry *entry,
                          struct error *err);

/* Writes the information structure at LOADER_START_INFO and what it points to, but the command
 * line. */
int loader_multiboot_write(struct memory *memory, const struct loader_request *request,
                           gpa_t initrd, struct error *err);

#endif
