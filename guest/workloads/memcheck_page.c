/* SPDX-License-Identifier: MIT
 *
 * Pages of memcheck: writing and judging them. Payload writes are numbered: generation g makes the
 * writes (g - 1) * nwords up to g * nwords - 1, and write t goes to slot t modulo the payload. So
 * the writer of each slot follows from the generation alone. */
#include "guest/workloads/memcheck_page.h"

#include "guest/user/content.h"

/* Distance in the page between one slot and the next. */
#define JUMP 131u

static uint64_t page_base(uint64_t seed, uint64_t index, uint64_t generation)
{
    return content_mix(content_mix(seed + index) + generation);
}

static unsigned slot_place(uint64_t slot)
{
    return (unsigned)(slot * JUMP % MEMCHECK_PAYLOAD);
}

static uint64_t page_seal(uint64_t base, uint64_t sum)
{
    return content_mix(base) + sum;
}

void memcheck_page_fill(struct memcheck_page *page, uint64_t seed, uint64_t index)
{
    uint64_t base = page_base(seed, index, 0);
    uint64_t sum = 0;

    page->index = index;
    page->generation = 0;
    for (unsigned place = 0; place < MEMCHECK_PAYLOAD; place++) {
        page->payload[place] = content_word(base, place);
        sum += page->payload[place];
    }
    page->checksum = page_seal(base, sum);
}

bool memcheck_page_ok(const struct memcheck_page *page, uint64_t seed, uint64_t index,
                      uint64_t generation, uint64_t nwords)
{
    uint64_t writes = generation * nwords;
    unsigned place = slot_place((writes + MEMCHECK_PAYLOAD - 1) % MEMCHECK_PAYLOAD);
    unsigned left = MEMCHECK_PAYLOAD;
    uint64_t wrong = 0;
    uint64_t sum = 0;

    /* From the last write backwards; what no generation wrote is still generation 0. */
    for (uint64_t g = generation; left; g--) {
        uint64_t base = page_base(seed, index, g);
        unsigned n = g && nwords < left ? (unsigned)nwords : left;

        left -= n;
        for (; n; n--) {
            uint64_t word = page->payload[place];

            wrong |= word ^ content_word(base, place);
            sum += word;
            place = place >= JUMP ? place - JUMP : place + MEMCHECK_PAYLOAD - JUMP;
        }
    }
    wrong |= page->index ^ index;
    wrong |= page->generation ^ generation;
    wrong |= page->checksum ^ page_seal(page_base(seed, index, generation), sum);
    return !wrong;
}

/* The generation that wrote a slot last. */
static uint64_t slot_generation(uint64_t slot, uint64_t generation, uint64_t nwords)
{
    uint64_t writes = generation * nwords;
    uint64_t back;

    if (!writes)
        return 0;
    back = (writes - 1 + MEMCHECK_PAYLOAD - slot) % MEMCHECK_PAYLOAD;
    return back < writes ? (writes - 1 - back) / nwords + 1 : 0;
}

struct memcheck_fault memcheck_page_fault(const struct memcheck_page *page, uint64_t seed,
                                          uint64_t index, uint64_t generation, uint64_t nwords)
{
    struct memcheck_fault fault = {0, page->index, index};
    uint64_t payload_expected[MEMCHECK_PAYLOAD];
    uint64_t sum = 0;

    if (page->index != index)
        return fault;
    fault = (struct memcheck_fault){1, page->generation, generation};
    if (page->generation != generation)
        return fault;
    for (unsigned slot = 0; slot < MEMCHECK_PAYLOAD; slot++) {
        unsigned place = slot_place(slot);
        uint64_t g = slot_generation(slot, generation, nwords);

        payload_expected[place] = content_word(page_base(seed, index, g), place);
    }
    for (unsigned place = 0; place < MEMCHECK_PAYLOAD; place++) {
        fault = (struct memcheck_fault){3 + place, page->payload[place], payload_expected[place]};
        if (fault.found != fault.expected)
            return fault;
        sum += page->payload[place];
    }
    return (struct memcheck_fault){2, page->checksum,
                                   page_seal(page_base(seed, index, generation), sum)};
}

void memcheck_page_write(struct memcheck_page *page, uint64_t seed, uint64_t index,
                         uint64_t generation, uint64_t nwords)
{
    uint64_t base = page_base(seed, index, generation);
    uint64_t sum = page->checksum - page_seal(page_base(seed, index, generation - 1), 0);
    uint64_t slot = (generation - 1) * nwords % MEMCHECK_PAYLOAD;

    for (uint64_t i = 0; i < nwords; i++) {
        unsigned place = slot_place(slot);
        uint64_t word = content_word(base, place);

        sum += word - page->payload[place];
        page->payload[place] = word;
        slot = slot + 1 < MEMCHECK_PAYLOAD ? slot + 1 : 0;
    }
    page->generation = generation;
    page->checksum = page_seal(base, sum);
}
