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
#include <assert.h>
#include <linux/kvm.h>

#include "vmm/base/bitmap.h"
#include "vmm/dirty_log_internal.h"

static bool clear_supported(const struct kvm *kvm)
{
    return kvm->manual_protect & KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE;
}

static int clear_choose(struct dirty_log *log, struct error *err)
{
    uint64_t wanted = KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET;

    return dirty_log_set_manual(log, log->vm.kvm->manual_protect & wanted, err);
}

/* One range of a claim, in words. The ioctl takes the bits as the kernel has them. */
struct range {
    uint64_t *words;
    size_t begin, end;
};

static int clear_range(struct dirty_log *log, unsigned slot, uint64_t first_page, uint64_t npages,
                       const struct range *range, struct error *err)
{
    uint64_t skipped = range->begin * BITMAP_WORD_BITS;
    /* Only a range that ends the slot may end inside a word. */
    uint64_t end = range->end * BITMAP_WORD_BITS < npages ? range->end * BITMAP_WORD_BITS : npages;
    size_t nwords = range->end - range->begin;
    struct kvm_clear_dirty_log request = {
        .slot = slot,
        .first_page = first_page + skipped,
        .num_pages = (uint32_t)(end - skipped), /* a slot has less than 2^31 pages */
        .dirty_bitmap = range->words + range->begin,
    };
    int result;

    bitmap_to_le(range->words + range->begin, nwords);
    result = dirty_log_ioctl(log, KVM_CLEAR_DIRTY_LOG, "KVM_CLEAR_DIRTY_LOG", &request, err);
    bitmap_from_le(range->words + range->begin, nwords);
    return result < 0 ? result : 0;
}

/* So many words are looked at in one step: most are clear where few pages are dirty. */
#define BLOCK_WORDS 8

static bool block_is_clear(const uint64_t *words)
{
    uint64_t any = 0;

    for (size_t i = 0; i < BLOCK_WORDS; i++)
        any |= words[i];
    return !any;
}

/* Narrows [range->begin, end) to the next range to clear; false where there is none left. */
static bool next_range(enum dirty_log_ranges ranges, struct range *range, size_t end)
{
    const uint64_t *words = range->words;

    while (end - range->begin >= BLOCK_WORDS && block_is_clear(words + range->begin))
        range->begin += BLOCK_WORDS;
    while (range->begin < end && !words[range->begin])
        range->begin++;
    if (range->begin == end)
        return false;
    if (ranges == DIRTY_LOG_RANGES_SPLIT) {
        range->end = range->begin + 1;
        while (range->end < end && words[range->end])
            range->end++;
        return true;
    }
    range->end = end;
    while (range->end - range->begin > BLOCK_WORDS &&
           block_is_clear(words + range->end - BLOCK_WORDS))
        range->end -= BLOCK_WORDS;
    while (!words[range->end - 1])
        range->end--;
    return true;
}

/* The words [begin, end) of a claim: not more than a chunk. */
static int clear_chunk(struct dirty_log *log, unsigned slot, uint64_t first_page, uint64_t npages,
                       uint64_t *words, size_t begin, size_t end, struct error *err)
{
    struct range range = {.words = words, .begin = begin};
    int result = 0;

    while (!result && next_range(log->options.ranges, &range, end)) {
        if (log->options.ranges == DIRTY_LOG_RANGES_WHOLE) {
            range.begin = begin;
            range.end = end;
        }
        result = clear_range(log, slot, first_page, npages, &range, err);
        range.begin = range.end;
    }
    return result;
}

static int clear_protect(struct dirty_log *log, unsigned slot, uint64_t first_page, uint64_t npages,
                         uint64_t *words, struct error *err)
{
    size_t nwords = bitmap_words(npages);
    size_t step = log->options.chunk_pages / BITMAP_WORD_BITS;
    int result = 0;

    assert(step);
    for (size_t begin = 0; !result && begin < nwords; begin += step) {
        size_t end = nwords - begin < step ? nwords : begin + step;

        result = clear_chunk(log, slot, first_page, npages, words, begin, end, err);
    }
    return result;
}

const struct dirty_log_ops dirty_log_clear_ops = {
    .name = "clear",
    .supported = clear_supported,
    .choose = clear_choose,
    .fetch = dirty_log_get_slot,
    .protect = clear_protect,
};
