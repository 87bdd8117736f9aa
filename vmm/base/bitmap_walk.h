/* SPDX-License-Identifier: MIT
 *
 * The walk that all paths share, compiled once for each: every bitmap_<path>.c includes this after
 * it has defined
 *
 *   WALK_TARGET   the attribute that lets a function use the path's instructions
 *   WALK_BLOCK    words that are looked at together, at most 64
 *   walk_block()  a bit for each word of a whole block that is worth a closer look
 *   walk_put()    writes the numbers of set bits, and possibly some after them that do not count;
 *                 never more than 64
 *   walk_pair()   makes pairs of first and end into pairs of first and count
 *
 * Runs are found by their edges: the bits of `word ^ (word << 1 | bit 63 of the word before)` are
 * where a run begins and where the next gap does, by turns. So a run is a pair of edges, whatever
 * number of words is between, and a word without an edge (all clear in a gap, all set in a run) is
 * skipped. Pages and edges are the same walk over different bits. */
#ifndef VMM_BASE_BITMAP_WALK_H
#define VMM_BASE_BITMAP_WALK_H

#include "vmm/base/bitmap_path.h"

#define WALK_INLINE static inline __attribute__((always_inline))

/* The bits of the last word that count. */
static inline uint64_t walk_tail_mask(uint64_t nbits)
{
    uint64_t tail = nbits % BITMAP_WORD_BITS;

    return tail ? (1ull << tail) - 1 : UINT64_MAX;
}

/* One word's worth of numbers must fit wherever the walk may go on. */
#define WALK_ROOM 64u

struct walk {
    const uint64_t *words;
    size_t nwords;
    uint64_t nbits;
    size_t begin;        /* the word that holds the first bit to look at */
    uint64_t begin_mask; /* the bits of it that count */
};

/* The pages or the edges of word `i`. */
WALK_INLINE uint64_t walk_bits(const struct walk *walk, size_t i, bool edges)
{
    uint64_t word = walk->words[i];
    uint64_t before = 0;

    if (i + 1 == walk->nwords)
        word &= walk_tail_mask(walk->nbits);
    if (i == walk->begin)
        word &= walk->begin_mask;
    else if (edges)
        before = walk->words[i - 1] >> (BITMAP_WORD_BITS - 1);
    return edges ? word ^ (word << 1 | before) : word;
}

/* Which words of the block at word `i` are worth a look. Blocks lie at multiples of WALK_BLOCK
 * words, so that only the bitmap's end can cut one short. */
WALK_TARGET WALK_INLINE uint64_t walk_look(const struct walk *walk, size_t i, bool edges)
{
    size_t left = walk->nwords - i;
    uint64_t look = 0;

    if (left >= WALK_BLOCK) {
        look = walk_block(walk->words + i, edges && i ? walk->words[i - 1] : 0, edges);
    } else {
        for (size_t k = 0; k < left; k++) {
            if (i + k >= walk->begin && walk_bits(walk, i + k, edges))
                look |= 1ull << k;
        }
    }
    /* The first word's mask may make an edge that the block did not see. */
    if (i <= walk->begin) {
        look |= 1ull << (walk->begin - i);
        look &= UINT64_MAX << (walk->begin - i);
    }
    return look;
}

/* Fills `out` from the first word on until fewer than WALK_ROOM of its `room` places are left or
 * the bitmap ends; returns how many were filled. *at is the first word that was not walked. */
WALK_TARGET WALK_INLINE size_t walk_fill(const struct walk *walk, size_t *at, uint64_t *out,
                                         size_t room, bool edges)
{
    size_t used = 0;

    for (size_t i = walk->begin - walk->begin % WALK_BLOCK; i < walk->nwords; i += WALK_BLOCK) {
        for (uint64_t look = walk_look(walk, i, edges); look; look &= look - 1) {
            size_t word = i + (size_t)__builtin_ctzll(look);

            if (room - used < WALK_ROOM) {
                *at = word;
                return used;
            }
            used += walk_put(out + used, (uint64_t)word * BITMAP_WORD_BITS,
                             walk_bits(walk, word, edges));
        }
    }
    *at = walk->nwords;
    return used;
}

WALK_INLINE struct walk walk_from(const uint64_t *words, uint64_t nbits, uint64_t position)
{
    return (struct walk){.words = words,
                         .nwords = bitmap_words(nbits),
                         .nbits = nbits,
                         .begin = (size_t)(position / BITMAP_WORD_BITS),
                         .begin_mask = UINT64_MAX << (position % BITMAP_WORD_BITS)};
}

WALK_TARGET static size_t walk_pages(const uint64_t *words, uint64_t nbits, uint64_t *position,
                                     uint64_t *pages, size_t max)
{
    struct walk walk = walk_from(words, nbits, *position);
    size_t used = 0;
    size_t at;

    if (*position >= nbits)
        return 0;
    if (max >= WALK_ROOM) {
        used = walk_fill(&walk, &at, pages, max, false);
        *position = at == walk.nwords ? nbits : (uint64_t)at * BITMAP_WORD_BITS;
        return used;
    }
    while (used < max && *position < nbits) {
        uint64_t bits = walk_bits(&walk, walk.begin, false);

        for (; bits && used < max; bits &= bits - 1) {
            pages[used] = (uint64_t)walk.begin * BITMAP_WORD_BITS + (uint64_t)__builtin_ctzll(bits);
            *position = pages[used++] + 1;
        }
        if (!bits) {
            *position = ((uint64_t)walk.begin + 1) * BITMAP_WORD_BITS;
            walk = walk_from(words, nbits, *position);
        }
    }
    if (*position > nbits)
        *position = nbits;
    return used;
}

WALK_TARGET static size_t walk_runs(const uint64_t *words, uint64_t nbits, uint64_t *position,
                                    struct bitmap_run *runs, size_t max)
{
    struct walk walk = walk_from(words, nbits, *position);
    uint64_t *edges = (uint64_t *)runs;
    size_t used = 0;
    size_t at;

    if (*position >= nbits)
        return 0;
    /* Room for more than one word's edges, so that at least one run is complete. */
    if (2 * max <= WALK_ROOM) {
        while (used < max && bitmap_next_run(words, nbits, position, &runs[used]))
            used++;
        return used;
    }
    used = walk_fill(&walk, &at, edges, 2 * max, true);
    if (at == walk.nwords) {
        if (used % 2)
            edges[used++] = nbits;
        *position = nbits;
    } else {
        /* A run whose end was not seen begins the next batch. */
        *position = used % 2 ? edges[used - 1] : (uint64_t)at * BITMAP_WORD_BITS;
    }
    walk_pair(runs, used / 2);
    return used / 2;
}

#endif
