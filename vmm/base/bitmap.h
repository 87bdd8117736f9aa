/* SPDX-License-Identifier: MIT
 *
 * Bitmaps of 64-bit words, one bit per page, as KVM's dirty log has them, and the walk that turns
 * them into runs of pages. A bitmap of nbits has bitmap_words(nbits) words; bits past nbits in the
 * last word are never looked at, whoever set them.
 *
 * What is long is done the best way that the CPU has (bitmap_path.h). Plain functions are not
 * atomic. The *_atomic ones are for bitmaps that device threads mark while another thread harvests.
 */
#ifndef VMM_BASE_BITMAP_H
#define VMM_BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITMAP_WORD_BITS 64u

struct bitmap_run {
    uint64_t first; /* index of the first set bit */
    uint64_t count; /* set bits in a row, at least 1 */
};

static inline size_t bitmap_words(uint64_t nbits)
{
    return (size_t)(nbits / BITMAP_WORD_BITS + (nbits % BITMAP_WORD_BITS != 0));
}

static inline bool bitmap_test(const uint64_t *words, uint64_t bit)
{
    return (words[bit / BITMAP_WORD_BITS] >> (bit % BITMAP_WORD_BITS)) & 1;
}

static inline void bitmap_set(uint64_t *words, uint64_t bit)
{
    words[bit / BITMAP_WORD_BITS] |= 1ull << (bit % BITMAP_WORD_BITS);
}

static inline void bitmap_clear(uint64_t *words, uint64_t bit)
{
    words[bit / BITMAP_WORD_BITS] &= ~(1ull << (bit % BITMAP_WORD_BITS));
}

/* Sets bits [first, first + count). */
void bitmap_set_range(uint64_t *words, uint64_t first, uint64_t count);

/* Number of set bits among the first nbits. */
uint64_t bitmap_count(const uint64_t *words, uint64_t nbits);

/* Finds the next run of set bits that starts at *position or later and moves *position past it.
 * Returns false where no set bit is left before nbits. Start with *position = 0:
 *
 *     while (bitmap_next_run(words, nbits, &position, &run)) …
 */
bool bitmap_next_run(const uint64_t *words, uint64_t nbits, uint64_t *position,
                     struct bitmap_run *run);

/* The same walk in batches, several times as fast: writes the next runs, at most `max` (1 or more),
 * and moves *position past them. A batch may be smaller than `max`, but only the end is empty. A
 * run is never cut: where it would not fit as a whole it begins the next batch. The fast ways need
 * room for 33 runs; more than BITMAP_RUNS_BATCH gain nothing.
 *
 *     while ((n = bitmap_runs(words, nbits, &position, runs, BITMAP_RUNS_BATCH)) > 0) … */
size_t bitmap_runs(const uint64_t *words, uint64_t nbits, uint64_t *position,
                   struct bitmap_run *runs, size_t max);

/* 4 KiB each: on a stack, and in the first-level cache. */
#define BITMAP_RUNS_BATCH  256u
#define BITMAP_PAGES_BATCH 512u

/* Is one of the first nbits set? */
bool bitmap_any(const uint64_t *words, uint64_t nbits);

/* ORs `from` into `into`; returns how many of into's first nbits are set then. */
uint64_t bitmap_merge(uint64_t *into, const uint64_t *from, uint64_t nbits);

/* KVM's dirty bitmaps are little-endian (set_bit_le() in the kernel, whatever the host): in place,
 * to and from words whose bit n is page n. Nothing to do on a little-endian host. */
static inline void bitmap_from_le(uint64_t *words, size_t nwords)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < nwords; i++)
        words[i] = __builtin_bswap64(words[i]);
#else
    (void)words;
    (void)nwords;
#endif
}

static inline void bitmap_to_le(uint64_t *words, size_t nwords)
{
    bitmap_from_le(words, nwords);
}

/* Sets one bit after the store that it stands for: release order. */
void bitmap_set_atomic(uint64_t *words, uint64_t bit);

/* Takes a whole word and leaves zero: acquire order, so that what is read from the page afterwards
 * is at least as new as the mark. */
uint64_t bitmap_take_word_atomic(uint64_t *word);

#endif
