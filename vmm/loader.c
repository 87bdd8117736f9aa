/* SPDX-License-Identifier: MIT
 *
 * Which loader an image needs, and what they have in common. */
#include "vmm/loader.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "vmm/loader_internal.h"
#include "vmm/loader_multiboot.h"

/* A jump to F000:FFF0 reboots a PC, and is how Linux reboots where ACPI's hardware is reduced and
 * there is no EFI. Real-mode code:
 *   mov dx, 0xcf9; mov al, 6; out dx, al; hlt; jmp $-1 */
static const uint8_t reset_code[] = {0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee, 0xf4, 0xeb, 0xfd};

_Static_assert(LOADER_RESET_VECTOR + sizeof(reset_code) <= LOADER_HIGH_START, "it fits");

static bool overlaps(gpa_t a, uint64_t a_bytes, gpa_t b, uint64_t b_bytes)
{
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

bool loader_hits_low_structures(const struct loader_request *request, gpa_t gpa, uint64_t bytes,
                                size_t tree_bytes)
{
    return overlaps(gpa, bytes, LOADER_START_INFO, LOADER_INFO_END - LOADER_START_INFO) ||
           overlaps(gpa, bytes, LOADER_CMDLINE, LOADER_CMDLINE_END - LOADER_CMDLINE) ||
           overlaps(gpa, bytes, LOADER_FDT, tree_bytes) ||
           overlaps(gpa, bytes, LOADER_ACPI_GPA, request->acpi.bytes) ||
           overlaps(gpa, bytes, LOADER_RESET_VECTOR, sizeof(reset_code));
}

int loader_low_check(const struct memory *memory, const struct loader_request *request,
                     size_t tree_bytes, struct error *err)
{
    const char *name = request->kernel.name;
    size_t length = strlen(request->bootargs);

    if (length > MACHINE_BOOTARGS_MAX)
        return error_set(err, E2BIG, "%s: the command line has %zu bytes, at most %d fit", name,
                         length, MACHINE_BOOTARGS_MAX);
    if (tree_bytes > LOADER_FDT_MAX_BYTES)
        return error_set(err, E2BIG, "%s: the device tree has %zu bytes, at most %u fit", name,
                         tree_bytes, LOADER_FDT_MAX_BYTES);
    if (request->acpi.bytes > LOADER_ACPI_MAX_BYTES)
        return error_set(err, E2BIG, "%s: the ACPI tables have %zu bytes, at most %u fit", name,
                         request->acpi.bytes, LOADER_ACPI_MAX_BYTES);
    if (!memory_at(memory, 0, LOADER_HIGH_START))
        return error_set(err, ENOMEM, "%s: the first MiB of guest memory is not RAM", name);
    return 0;
}

int loader_low_write(struct memory *memory, const struct loader_request *request, struct error *err)
{
    int ret =
        memory_write(memory, LOADER_CMDLINE, request->bootargs, strlen(request->bootargs) + 1);

    if (!ret && request->acpi.bytes)
        ret = memory_write(memory, LOADER_ACPI_GPA, request->acpi.data, request->acpi.bytes);
    if (!ret)
        ret = memory_write(memory, LOADER_RESET_VECTOR, reset_code, sizeof(reset_code));
    return ret ? error_set(err, -ret, "boot structures do not fit into guest memory") : 0;
}

unsigned loader_memmap(const struct memory *memory, struct loader_memmap_range *map)
{
    unsigned n = 0;

    for (unsigned i = 0; i < memory->nregions; i++) {
        gpa_t gpa = memory->region[i].gpa;
        uint64_t bytes = memory->region[i].npages * MEMORY_PAGE_BYTES;
        bool in_gap = gpa >= MEMORY_GAP_START && gpa < MEMORY_GAP_END;

        if (gpa == 0) {
            map[n++] = (struct loader_memmap_range){0, LOADER_LOW_END, LOADER_MEMMAP_RAM};
            map[n++] = (struct loader_memmap_range){
                LOADER_LOW_END, LOADER_HIGH_START - LOADER_LOW_END, LOADER_MEMMAP_RESERVED};
            gpa = LOADER_HIGH_START;
            bytes -= LOADER_HIGH_START;
        }
        /* What lies in the 32-bit gap belongs to a device. */
        if (bytes)
            map[n++] = (struct loader_memmap_range){
                gpa, bytes, in_gap ? LOADER_MEMMAP_RESERVED : LOADER_MEMMAP_RAM};
    }
    return n;
}

int loader_initrd_place(const struct memory *memory, const struct loader_request *request,
                        gpa_t kernel_end, gpa_t limit, gpa_t *gpa, struct error *err)
{
    const struct loader_blob *initrd = &request->initrd;
    gpa_t end = memory->region[0].npages * MEMORY_PAGE_BYTES;

    *gpa = 0;
    if (!initrd->bytes)
        return 0;
    end = end < limit ? end : limit;
    if (initrd->bytes <= end)
        *gpa = (end - initrd->bytes) & ~(gpa_t)(MEMORY_PAGE_BYTES - 1);
    if (*gpa < kernel_end || *gpa < LOADER_HIGH_START) {
        *gpa = 0;
        return error_set(err, ENOMEM,
                         "%s: the initrd's %zu bytes do not fit between the kernel's end at 0x%llx "
                         "and 0x%llx: give the guest more memory",
                         initrd->name, initrd->bytes, (unsigned long long)kernel_end,
                         (unsigned long long)end);
    }
    return 0;
}

int loader_initrd_write(struct memory *memory, const struct loader_request *request, gpa_t gpa,
                        struct error *err)
{
    int ret = 0;

    if (request->initrd.bytes)
        ret = memory_write(memory, gpa, request->initrd.data, request->initrd.bytes);
    return ret ? error_set(err, -ret, "%s: does not fit into guest memory", request->initrd.name)
               : 0;
}

int loader_load(struct memory *memory, const struct loader_request *request,
                struct loader_entry *entry, struct error *err)
{
    const struct loader_blob *kernel = &request->kernel;
    struct loader_multiboot header;
    bool is_elf = kernel->bytes >= SELFMAG && memcmp(kernel->data, ELFMAG, SELFMAG) == 0;

    *entry = (struct loader_entry){0};
    if (request->load_address != LOADER_ADDRESS_NONE)
        return loader_load_flat(memory, request, entry, err);
    if (loader_is_bzimage(kernel))
        return loader_load_bzimage(memory, request, entry, err);
    if (!is_elf && loader_multiboot_find(kernel, &header) && loader_multiboot_addresses(&header))
        return loader_load_multiboot(memory, request, &header, entry, err);
    return loader_load_elf(memory, request, entry, err);
}
