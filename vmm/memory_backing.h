/* SPDX-License-Identifier: MIT
 *
 * Where guest RAM comes from: one host mapping of the wanted kind. Internal to memory.c. */
#ifndef VMM_MEMORY_BACKING_H
#define VMM_MEMORY_BACKING_H

#include "vmm/memory.h"

#define MEMORY_HUGE_BYTES (2ull * 1024 * 1024)

/* Maps region->npages of the backing, untouched, and fills hva and fd. The host address is
 * congruent to the gpa modulo 2 MiB: KVM maps huge pages only then. `npages_wanted` is what this
 * and the regions after it need, for the message when huge pages run out. */
int memory_backing_map(struct memory_region *region, enum memory_backing backing,
                       uint64_t npages_wanted, struct error *err);
void memory_backing_unmap(struct memory_region *region);

#endif
