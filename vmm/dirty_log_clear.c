/* SPDX-License-Identifier: MIT
 *
 * Backend "clear": manual protection. KVM_GET_DIRTY_LOG only copies the bitmap out;
 * KVM_CLEAR_DIRTY_LOG clears and write-protects the pages of one chunk, so that the kernel's lock
 * is held briefly and a page written again while it waited in pending is sent once. With
 * initially-set, switching logging on protects nothing either: the first clear of each page does.
 *
 * Bits that were never fetched must not be cleared, or the store behind them is lost. The bits
 * cleared here are those of a claim, and they need not all have been fetched: pages that are
 * pending from the start, or because the VMM wrote them, may have become dirty in the kernel's
 * bitmap only after the last fetch. Clearing those is safe because a claimed page is read after
 * this returns: the store is in what will be read, and the next one faults again. Pages that are
 * not claimed are never cleared. */
#include <linux/kvm.h>

#include "vmm/dirty_log_internal.h"

static bool clear_supported(const struct kvm *kvm)
{
    return kvm->manual_protect & KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE;
}

static int clear_choose(const struct dirty_log *log, struct error *err)
{
    uint64_t wanted = KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET;

    return dirty_log_set_manual(log, log->kvm->manual_protect & wanted, err);
}

static int clear_protect(const struct dirty_log *log, unsigned slot, uint64_t first_page,
                         uint64_t npages, uint64_t *words, struct error *err)
{
    struct kvm_clear_dirty_log request = {
        .slot = slot,
        .first_page = first_page,
        .num_pages = (uint32_t)npages, /* a slot has less than 2^31 pages */
        .dirty_bitmap = words,
    };
    int result = KVM_IOCTL(log->vm_fd, KVM_CLEAR_DIRTY_LOG, &request, err);

    return result < 0 ? result : 0;
}

const struct dirty_log_ops dirty_log_clear_ops = {
    .name = "clear",
    .supported = clear_supported,
    .choose = clear_choose,
    .fetch = dirty_log_get_slot,
    .protect = clear_protect,
};
