/* SPDX-License-Identifier: MIT
 *
 * Backend "get": KVM_GET_DIRTY_LOG hands out a slot's bitmap, clears it and write-protects the
 * pages, all at once. Every kernel has it. */
#include <linux/kvm.h>

#include "vmm/base/bitmap.h"
#include "vmm/dirty_log_internal.h"

int dirty_log_get_slot(struct dirty_log *log, unsigned slot, bool replace, uint64_t *npages,
                       struct error *err)
{
    const struct dirty_log_slot *s = &log->slot[slot];
    uint64_t *words = replace ? s->pending : log->scratch;
    struct kvm_dirty_log request = {.slot = slot, .dirty_bitmap = words};
    int result = dirty_log_ioctl(log, KVM_GET_DIRTY_LOG, "KVM_GET_DIRTY_LOG", &request, err);

    if (result < 0)
        return result;
    bitmap_from_le(words, s->nwords);
    *npages = replace ? bitmap_count(words, s->npages) : bitmap_merge(s->pending, words, s->npages);
    return 0;
}

int dirty_log_set_manual(const struct dirty_log *log, uint64_t flags, struct error *err)
{
    struct kvm_enable_cap cap = {.cap = KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2, .args = {flags}};
    int result = KVM_IOCTL(log->vm.vm_fd, KVM_ENABLE_CAP, &cap, err);

    if (result < 0) {
        error_prefix(err, "KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2");
        return result;
    }
    return 0;
}

static bool get_supported(const struct kvm *kvm)
{
    (void)kvm;
    return true;
}

/* An earlier log of this VM may have chosen manual protection, under which GET protects nothing. */
static int get_choose(struct dirty_log *log, struct error *err)
{
    return log->vm.kvm->manual_protect ? dirty_log_set_manual(log, 0, err) : 0;
}

const struct dirty_log_ops dirty_log_get_ops = {
    .name = "get",
    .supported = get_supported,
    .choose = get_choose,
    .fetch = dirty_log_get_slot,
};
