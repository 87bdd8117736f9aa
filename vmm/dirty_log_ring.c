/* SPDX-License-Identifier: MIT
 *
 * Backend "ring": the vCPUs' dirty rings. Harvesting re-protects, so a claim has nothing left to
 * do; a vCPU whose ring ran full harvests it in its own thread, between two syncs. */
#include <errno.h>

#include "vmm/dirty_log_internal.h"
#include "vmm/dirty_ring.h"

static bool ring_supported(const struct kvm *kvm)
{
    return kvm->dirty_ring_max != 0;
}

static int ring_choose(struct dirty_log *log, struct error *err)
{
    return dirty_rings_start(log->vm.rings, log->vm.memory, err);
}

static int ring_begin(struct dirty_log *log, struct error *err)
{
    uint64_t found;
    uint64_t reset_ns = 0;
    int result = dirty_rings_harvest(log->vm.rings, &found, &reset_ns, err);

    if (reset_ns)
        dirty_log_count_ioctl(log, reset_ns);
    return result;
}

static int ring_fetch(struct dirty_log *log, unsigned slot, bool replace, uint64_t *npages,
                      struct error *err)
{
    (void)err;
    *npages = dirty_rings_take(log->vm.rings, slot, &log->slot[slot].pending, replace);
    return 0;
}

static void ring_end(struct dirty_log *log)
{
    dirty_rings_stop(log->vm.rings);
}

const struct dirty_log_ops dirty_log_ring_ops = {
    .name = "ring",
    .supported = ring_supported,
    .choose = ring_choose,
    .begin = ring_begin,
    .fetch = ring_fetch,
    .end = ring_end,
};
