/* SPDX-License-Identifier: MIT */
#include "vmm/base/bitmap.h"

#include "vmm/base/bitmap_path.h"

void bitmap_set_range(uint64_t *words, uint64_t first, uint64_t count)
{
    uint64_t bit = first;
    uint64_t end = first + count;

    while (bit < end) {
        uint64_t offset = bit % BITMAP_WORD_BITS;
        uint64_t take = BITMAP_WORD_BITS - offset;
        uint64_t mask;

        if (take > end - bit)
            take = end - bit;
        mask = take == BITMAP_WORD_BITS ? UINT64_MAX : ((1ull << take) - 1) << offset;
        words[bit / BITMAP_WORD_BITS] |= mask;
        bit += take;
    }
}

/* The first bit at or after `from` whose value is not that of `skip` (all zeros or all ones), or
 * nbits. Whole words equal to `skip` cost one comparison each. */
static uint64_t first_unlike(const uint64_t *words, uint64_t nbits, uint64_t from, uint64_t skip)
{
    size_t nwords = bitmap_words(nbits);
    size_t i = (size_t)(from / BITMAP_WORD_BITS);
    uint64_t word;

    if (from >= nbits)
        return nbits;
    word = (words[i] ^ skip) & (UINT64_MAX << (from % BITMAP_WORD_BITS));
    while (!word) {
        if (++i == nwords)
            return nbits;
        word = words[i] ^ skip;
    }
    from = (uint64_t)i * BITMAP_WORD_BITS + (uint64_t)__builtin_ctzll(word);
    return from < nbits ? from : nbits;
}

bool bitmap_next_run(const uint64_t *words, uint64_t nbits, uint64_t *position,
                     struct bitmap_run *run)
{
    uint64_t first = first_unlike(words, nbits, *position, 0);
    uint64_t end;

    if (first == nbits) {
        *position = nbits;
        return false;
    }
    end = first_unlike(words, nbits, first, UINT64_MAX);
    run->first = first;
    run->count = end - first;
    *position = end;
    return true;
}

void bitmap_set_atomic(uint64_t *words, uint64_t bit)
{
    __atomic_fetch_or(&words[bit / BITMAP_WORD_BITS], 1ull << (bit % BITMAP_WORD_BITS),
                      __ATOMIC_RELEASE);
}

uint64_t bitmap_take_word_atomic(uint64_t *word)
{
    /* Most words are zero: look first, so that a harvest does not bounce every cache line. */
    if (!__atomic_load_n(word, __ATOMIC_RELAXED))
        return 0;
    return __atomic_exchange_n(word, 0, __ATOMIC_ACQUIRE);
}

const struct bitmap_path *bitmap_path_at(unsigned index)
{
    static const struct bitmap_path *const paths[] = {
#if defined(__x86_64__)
        &bitmap_path_avx512,
        &bitmap_path_avx2,
#endif
        &bitmap_path_scalar,
    };

    return index < sizeof(paths) / sizeof(paths[0]) ? paths[index] : NULL;
}

const struct bitmap_path *bitmap_path_best(void)
{
    const struct bitmap_path *path;
    unsigned index = 0;

    do {
        path = bitmap_path_at(index++);
    } while (!path->supported());
    return path;
}

size_t bitmap_runs(const uint64_t *words, uint64_t nbits, uint64_t *position,
                   struct bitmap_run *runs, size_t max)
{
    return bitmap_path_best()->runs(words, nbits, position, runs, max);
}

uint64_t bitmap_count(const uint64_t *words, uint64_t nbits)
{
    return bitmap_path_best()->count(words, nbits);
}

bool bitmap_any(const uint64_t *words, uint64_t nbits)
{
    return bitmap_path_best()->any(words, nbits);
}

uint64_t bitmap_merge(uint64_t *into, const uint64_t *from, uint64_t nbits)
{
    return bitmap_path_best()->merge(into, from, nbits);
}
