/* SPDX-License-Identifier: MIT
 *
 * A slot's pending bits. Claims hand out the words themselves, without a copy: what was handed out
 * is remembered, and is empty again when the next sync begins. Claims usually come in order and
 * reach the end: then one number tells it, and the kernel's words can simply replace the old ones.
 * Else a bit for each word does. That all is pending at first is written down only as it is
 * claimed: switching a log on then costs the same for any size of slot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/bitmap.h"
#include "vmm/dirty_log_internal.h"

int dirty_log_slot_init(struct dirty_log_slot *slot, uint64_t npages, struct error *err)
{
    slot->npages = npages;
    slot->nwords = bitmap_words(npages);
    /* Not even zeroed: see `untouched`. */
    slot->pending = malloc(slot->nwords * sizeof(uint64_t));
    slot->claimed = calloc(bitmap_words(slot->nwords), sizeof(uint64_t));
    if (!slot->pending || !slot->claimed)
        return error_set(err, ENOMEM, "no memory for the dirty bitmaps");
    slot->logged = true;
    slot->untouched = true;
    slot->in_order = true;
    return 0;
}

void dirty_log_slot_free(struct dirty_log_slot *slot)
{
    free(slot->pending);
    free(slot->claimed);
}

/* Empties the claimed words of [first, first + count). */
static void empty_claimed(struct dirty_log_slot *slot, size_t first, size_t count)
{
    struct bitmap_run run;
    uint64_t position = first;

    while (bitmap_next_run(slot->claimed, first + count, &position, &run))
        memset(slot->pending + run.first, 0, (size_t)run.count * sizeof(uint64_t));
}

/* Sets the pages of the words of [first, first + count) that were not claimed. */
static void fill_unclaimed(struct dirty_log_slot *slot, size_t first, size_t count)
{
    struct bitmap_run run;
    uint64_t position = first;
    size_t from = first;
    size_t end = first + count;

    while (from < end) {
        bool more = bitmap_next_run(slot->claimed, end, &position, &run);
        size_t to = more ? (size_t)run.first : end;

        memset(slot->pending + from, 0xff, (to - from) * sizeof(uint64_t));
        from = more ? (size_t)(run.first + run.count) : end;
    }
    if (end == slot->nwords && !bitmap_test(slot->claimed, end - 1)) {
        uint64_t last = (end - 1) * BITMAP_WORD_BITS;

        slot->pending[end - 1] = 0;
        bitmap_set_range(slot->pending, last, slot->npages - last);
    }
}

static void leave_order(struct dirty_log_slot *slot)
{
    if (slot->in_order)
        bitmap_set_range(slot->claimed, 0, slot->claimed_end);
    slot->in_order = false;
}

uint64_t *dirty_log_slot_claim(struct dirty_log_slot *slot, size_t first_word, size_t nwords)
{
    if (first_word != slot->claimed_end)
        leave_order(slot);
    if (slot->untouched)
        fill_unclaimed(slot, first_word, nwords);
    if (slot->in_order) {
        slot->claimed_end += nwords;
        return slot->pending + first_word;
    }
    empty_claimed(slot, first_word, nwords);
    bitmap_set_range(slot->claimed, first_word, nwords);
    if (first_word + nwords > slot->claimed_end)
        slot->claimed_end = first_word + nwords;
    return slot->pending + first_word;
}

bool dirty_log_slot_renew(struct dirty_log_slot *slot)
{
    bool all = slot->in_order ? slot->claimed_end == slot->nwords
                              : bitmap_count(slot->claimed, slot->nwords) == slot->nwords;

    if (!all) {
        leave_order(slot);
        if (slot->untouched)
            fill_unclaimed(slot, 0, slot->nwords);
        empty_claimed(slot, 0, slot->nwords);
    }
    if (!slot->in_order)
        memset(slot->claimed, 0, bitmap_words(slot->nwords) * sizeof(uint64_t));
    slot->untouched = false;
    slot->in_order = true;
    slot->claimed_end = 0;
    return all;
}
