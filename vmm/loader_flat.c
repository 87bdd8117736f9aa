/* SPDX-License-Identifier: MIT
 *
 * Flat images: bytes at an address, entered at the first one. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_internal.h"

/* What a real-mode program has no way to be told. */
static int check_real_mode(const struct loader_request *request, struct error *err)
{
    if (*request->bootargs || request->initrd.bytes)
        return error_set(err, EINVAL,
                         "%s: a flat image below 1 MiB starts in real mode and gets no command "
                         "line and no initrd",
                         request->kernel.name);
    return 0;
}

static int check_place(const struct memory *memory, const struct loader_request *request,
                       struct error *err)
{
    const struct loader_blob *image = &request->kernel;
    uint64_t gpa = request->load_address;

    if (!image->bytes)
        return error_set(err, ENOEXEC, "%s: empty file", image->name);
    if (!size_range_within(gpa, image->bytes, LOADER_4GIB))
        return error_set(err, ENOMEM,
                         "%s: %zu bytes at 0x%" PRIx64
                         " reach above 4 GiB, where 32-bit code cannot be entered",
                         image->name, image->bytes, gpa);
    if (!memory_at(memory, gpa, image->bytes))
        return error_set(err, ENOMEM, "%s: %zu bytes at 0x%" PRIx64 " are not all RAM", image->name,
                         image->bytes, gpa);
    return 0;
}

/* No ACPI tables: a flat image may lie where they would. */
static int write_info(struct memory *memory, const struct loader_request *request,
                      struct error *err)
{
    struct loader_request plain = *request;
    gpa_t initrd;
    int ret;

    plain.acpi = (struct loader_blob){0};
    ret = loader_low_check(memory, &plain, 0, err);
    if (!ret)
        ret = loader_initrd_place(memory, &plain, plain.load_address + plain.kernel.bytes,
                                  LOADER_4GIB, &initrd, err);
    if (!ret)
        ret = loader_initrd_write(memory, &plain, initrd, err);
    if (!ret)
        ret = loader_low_write(memory, &plain, err);
    return ret ? ret : loader_pvh_write(memory, &plain, false, initrd, err);
}

int loader_load_flat(struct memory *memory, const struct loader_request *request,
                     struct loader_entry *entry, struct error *err)
{
    bool real_mode = request->load_address < LOADER_HIGH_START;
    int ret = check_place(memory, request, err);

    if (!ret)
        ret = real_mode ? check_real_mode(request, err) : write_info(memory, request, err);
    if (ret)
        return ret;
    ret = memory_write(memory, request->load_address, request->kernel.data, request->kernel.bytes);
    if (ret)
        return error_set(err, -ret, "%s: does not fit into guest memory", request->kernel.name);
    entry->mode = real_mode ? LOADER_REAL_MODE : LOADER_PROTECTED;
    entry->address = request->load_address;
    entry->info = real_mode ? 0 : LOADER_START_INFO;
    return 0;
}
