/* SPDX-License-Identifier: MIT
 *
 * The walk that all paths share, compiled once for each: every bitmap_<path>.c includes this after
 * it has defined
 *
 *   WALK_TARGET   the attribute that lets a function use the path's instructions
 *   WALK_BLOCK    words that are looked at together, at most 64
 *   walk_skip()   the first block from word i on, of those that are whole before word `end`, that
 *                 has a word unlike `skip` (all clear or all set), or what is left at `end`
 *   walk_block()  finds the pages or the edges (below) of a whole block's words; returns a bit for
 *                 each word that has some
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

/* Puts word `i` of the block at `block` right, whose masks the block did not know. */
WALK_INLINE uint64_t walk_mend(const struct walk *walk, size_t block, size_t i, bool edges,
                               uint64_t *bits)
{
    bits[i - block] = walk_bits(walk, i, edges);
    return 1ull << (i - block);
}

/* The bits of the block at word `i`; returns which of its words are worth a look. Blocks lie at
 * multiples of WALK_BLOCK words, so that only the bitmap's end can cut one short. */
WALK_TARGET WALK_INLINE uint64_t walk_look(const struct walk *walk, size_t i, bool edges,
                                           uint64_t *bits)
{
    size_t left = walk->nwords - i;
    uint64_t look = 0;

    if (left >= WALK_BLOCK) {
        look = walk_block(walk->words + i, edges && i ? walk->words[i - 1] : 0, edges, bits);
        if (left == WALK_BLOCK)
            look |= walk_mend(walk, i, walk->nwords - 1, edges, bits);
        if (i <= walk->begin) {
            look |= walk_mend(walk, i, walk->begin, edges, bits);
            look &= UINT64_MAX << (walk->begin - i);
        }
        return look;
    }
    for (size_t k = walk->begin > i ? walk->begin - i : 0; k < left; k++) {
        bits[k] = walk_bits(walk, i + k, edges);
        look |= (uint64_t)(bits[k] != 0) << k;
    }
    return look;
}

/* Fills `out` from the first word on until fewer than WALK_ROOM of its `room` places are left or
 * the bitmap ends; returns how many were filled. *at is the first word that was not walked. */
WALK_TARGET WALK_INLINE size_t walk_fill(const struct walk *walk, size_t *at, uint64_t *out,
                                         size_t room, bool edges)
{
    const uint64_t *const last = out + (room - WALK_ROOM);
    uint64_t bits[WALK_BLOCK];
    uint64_t *next = out;

    for (size_t i = walk->begin - walk->begin % WALK_BLOCK; i < walk->nwords; i += WALK_BLOCK) {
        /* Nothing begins or ends in words that are as the last bit was. */
        if (i > walk->begin) {
            i = walk_skip(walk->words, i, walk->nwords,
                          edges && walk->words[i - 1] >> (BITMAP_WORD_BITS - 1) ? UINT64_MAX : 0);
            if (i == walk->nwords)
                break;
        }
        for (uint64_t look = walk_look(walk, i, edges, bits); look; look &= look - 1) {
            size_t k = (size_t)__builtin_ctzll(look);

            if (next > last) {
                *at = i + k;
                return (size_t)(next - out);
            }
            next += walk_put(next, (uint64_t)(i + k) * BITMAP_WORD_BITS, bits[k]);
        }
    }
    *at = walk->nwords;
    return (size_t)(next - out);
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
