/* SPDX-License-Identifier: MIT
 *
 * Flat images: bytes at an address, entered at the first one. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/base/size.h"
#include "vmm/loader_internal.h"

int loader_load_flat(struct memory *memory, const char *name, const void *image, size_t image_bytes,
                     uint64_t load_address, const char *bootargs, struct loader_entry *entry,
                     struct error *err)
{
    bool real_mode = load_address < LOADER_HIGH_START;
    int result;

    if (!image_bytes)
        return error_set(err, ENOEXEC, "%s: empty file", name);
    if (!size_range_within(load_address, image_bytes, LOADER_4GIB))
        return error_set(err, ENOMEM,
                         "%s: %zu bytes at 0x%" PRIx64
                         " reach above 4 GiB, where 32-bit code cannot be entered",
                         name, image_bytes, load_address);
    if (!memory_at(memory, load_address, image_bytes))
        return error_set(err, ENOMEM, "%s: %zu bytes at 0x%" PRIx64 " are not all RAM", name,
                         image_bytes, load_address);
    if (real_mode && *bootargs)
        return error_set(err, EINVAL,
                         "%s: a flat image below 1 MiB starts in real mode and gets no command "
                         "line",
                         name);
    if (!real_mode) {
        result = loader_pvh_check(memory, name, bootargs, 0, err);
        if (!result)
            result = loader_pvh_write(memory, bootargs, NULL, 0, err);
        if (result)
            return result;
    }
    result = memory_write(memory, load_address, image, image_bytes);
    if (result)
        return error_set(err, -result, "%s: does not fit into guest memory", name);
    entry->mode = real_mode ? LOADER_REAL_MODE : LOADER_PROTECTED;
    entry->address = load_address;
    entry->start_info = real_mode ? 0 : LOADER_START_INFO;
    return 0;
}
