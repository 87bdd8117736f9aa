/* SPDX-License-Identifier: MIT */
#include "tools/dirty_oracle_judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/bitmap.h"

struct judge_page {
    uint64_t seen; /* at the last look, reported or not */
    uint64_t copy; /* at the last report */
    bool owed;     /* changed without a report: the next round must have it */
    bool lost;
};

/* No word ever returns to an earlier value, so that a digest differs after every store. */
static uint64_t look(const struct judge *judge, unsigned slot, uint64_t page)
{
    const uint8_t *at = judge->memory->region[slot].hva + page * MEMORY_PAGE_BYTES;
    const uint64_t *words = (const uint64_t *)(const void *)at;
    uint64_t digest =
        __atomic_load_n(words + JUDGE_DEVICE_OFFSET / sizeof(*words), __ATOMIC_ACQUIRE);

    for (unsigned cpu = 0; cpu < judge->ncpus; cpu++) {
        digest = (digest << 29 | digest >> 35) * 0x9e3779b97f4a7c15u;
        digest ^= __atomic_load_n(words + cpu, __ATOMIC_ACQUIRE);
    }
    return digest;
}

static void lose(struct judge *judge, unsigned slot, uint64_t page)
{
    struct judge_page *p = &judge->pages[slot][page];

    if (p->lost)
        return;
    p->lost = true;
    if (judge->lost_pages++ == 0) {
        judge->slot = slot;
        judge->page = page;
        judge->lost_round = judge->round;
    }
}

int judge_open(struct judge *judge, const struct memory *memory, unsigned nslots, unsigned ncpus,
               struct error *err)
{
    memset(judge, 0, sizeof(*judge));
    judge->memory = memory;
    judge->nslots = nslots;
    judge->ncpus = ncpus;
    for (unsigned i = 0; i < nslots; i++) {
        judge->pages[i] = calloc(memory->region[i].npages, sizeof(struct judge_page));
        if (!judge->pages[i])
            return error_set(err, ENOMEM, "no memory for the oracle's pages");
    }
    return 0;
}

void judge_close(struct judge *judge)
{
    for (unsigned i = 0; i < judge->nslots; i++)
        free(judge->pages[i]);
}

void judge_round(struct judge *judge, bool quiet)
{
    judge->round++;
    judge->quiet = quiet;
}

void judge_chunk(struct judge *judge, unsigned slot, uint64_t first_page, uint64_t npages,
                 const uint64_t *words)
{
    for (uint64_t i = 0; i < npages; i++) {
        struct judge_page *p = &judge->pages[slot][first_page + i];
        uint64_t now = look(judge, slot, first_page + i);
        bool changed = now != p->seen;
        bool reported = bitmap_test(words, i);

        if (!reported && (p->owed || (judge->quiet && changed)))
            lose(judge, slot, first_page + i);
        p->owed = !reported && changed && !judge->quiet;
        p->seen = now;
        if (reported) {
            p->copy = now;
            judge->reports++;
        }
    }
}

void judge_copies(struct judge *judge)
{
    for (unsigned slot = 0; slot < judge->nslots; slot++) {
        for (uint64_t page = 0; page < judge->memory->region[slot].npages; page++) {
            if (judge->pages[slot][page].copy != look(judge, slot, page))
                lose(judge, slot, page);
        }
    }
}
