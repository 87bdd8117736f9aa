/* SPDX-License-Identifier: MIT
 *
 * Bitmaps by plain 64-bit words: what every CPU has. */
#include "vmm/base/bitmap_path.h"
#include "vmm/base/bitmap_unroll.h"

#define WALK_TARGET
#define WALK_BLOCK 32

static inline size_t walk_skip(const uint64_t *words, size_t i, size_t end, uint64_t skip)
{
    for (; i + WALK_BLOCK <= end; i += WALK_BLOCK) {
        uint64_t unlike = 0;

        BITMAP_UNROLL
        for (unsigned k = 0; k < WALK_BLOCK; k++)
            unlike |= words[i + k] ^ skip;
        if (unlike)
            break;
    }
    return i;
}

static inline uint64_t walk_block(const uint64_t *words, uint64_t before, bool edges,
                                  uint64_t *bits)
{
    uint64_t look = 0;

    BITMAP_UNROLL
    for (unsigned i = 0; i < WALK_BLOCK; i++) {
        uint64_t word = words[i];

        bits[i] = edges ? word ^ (word << 1 | before >> (BITMAP_WORD_BITS - 1)) : word;
        look |= (uint64_t)(bits[i] != 0) << i;
        before = word;
    }
    return look;
}

static inline size_t walk_put(uint64_t *out, uint64_t base, uint64_t bits)
{
    size_t n = 0;

    for (; bits; bits &= bits - 1)
        out[n++] = base + (uint64_t)__builtin_ctzll(bits);
    return n;
}

static inline void walk_pair(struct bitmap_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        runs[i].count -= runs[i].first;
}

#include "vmm/base/bitmap_walk.h"

/* Set bits of a word without a popcount instruction: sums of 2, 4 and 8 bits, then all bytes. */
static inline uint64_t count_word(uint64_t w)
{
    w -= w >> 1 & 0x5555555555555555ull;
    w = (w & 0x3333333333333333ull) + (w >> 2 & 0x3333333333333333ull);
    w = (w + (w >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return w * 0x0101010101010101ull >> 56;
}

static uint64_t scalar_count(const uint64_t *words, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    uint64_t count = 0;

    if (!nwords)
        return 0;
    for (size_t i = 0; i + 1 < nwords; i++)
        count += count_word(words[i]);
    return count + count_word(words[nwords - 1] & walk_tail_mask(nbits));
}

static bool scalar_any(const uint64_t *words, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);

    if (!nwords)
        return false;
    for (size_t i = 0; i + 1 < nwords; i++) {
        if (words[i])
            return true;
    }
    return (words[nwords - 1] & walk_tail_mask(nbits)) != 0;
}

static uint64_t scalar_merge(uint64_t *into, const uint64_t *from, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    uint64_t count = 0;

    if (!nwords)
        return 0;
    for (size_t i = 0; i < nwords; i++) {
        into[i] |= from[i];
        count += count_word(into[i]);
    }
    return count - count_word(into[nwords - 1] & ~walk_tail_mask(nbits));
}

static bool scalar_supported(void)
{
    return true;
}

const struct bitmap_path bitmap_path_scalar = {
    .name = "scalar",
    .supported = scalar_supported,
    .runs = walk_runs,
    .pages = walk_pages,
    .count = scalar_count,
    .any = scalar_any,
    .merge = scalar_merge,
};
