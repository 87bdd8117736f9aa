/* SPDX-License-Identifier: MIT
 *
 * Bitmaps by 256-bit vectors. Compiled with the rest for any x86-64; only these functions may use
 * AVX2, BMI and POPCNT (Intel SDM volume 2), and only where the CPU says that it has them. */
#include "vmm/base/bitmap_path.h"
#include "vmm/base/bitmap_unroll.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WALK_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define WALK_BLOCK  64

#define VECTOR_WORDS 4u

WALK_TARGET static inline __m256i load(const uint64_t *words)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

/* Is every word of the block `skip`, which is all clear or all set? */
WALK_TARGET static inline bool block_is(const uint64_t *words, uint64_t skip)
{
    __m256i sum[4];

    BITMAP_UNROLL
    for (unsigned k = 0; k < 4; k++)
        sum[k] = load(words + k * VECTOR_WORDS);
    if (!skip) {
        BITMAP_UNROLL
        for (unsigned i = 16; i < WALK_BLOCK; i += VECTOR_WORDS)
            sum[i / 4 % 4] = _mm256_or_si256(sum[i / 4 % 4], load(words + i));
        sum[0] = _mm256_or_si256(_mm256_or_si256(sum[0], sum[1]), _mm256_or_si256(sum[2], sum[3]));
        return _mm256_testz_si256(sum[0], sum[0]);
    }
    BITMAP_UNROLL
    for (unsigned i = 16; i < WALK_BLOCK; i += VECTOR_WORDS)
        sum[i / 4 % 4] = _mm256_and_si256(sum[i / 4 % 4], load(words + i));
    sum[0] = _mm256_and_si256(_mm256_and_si256(sum[0], sum[1]), _mm256_and_si256(sum[2], sum[3]));
    return _mm256_testc_si256(sum[0], _mm256_set1_epi64x(-1));
}

WALK_TARGET static inline size_t walk_skip(const uint64_t *words, size_t i, size_t end,
                                           uint64_t skip)
{
    if (skip) {
        while (i + WALK_BLOCK <= end && block_is(words + i, UINT64_MAX))
            i += WALK_BLOCK;
    } else {
        while (i + WALK_BLOCK <= end && block_is(words + i, 0))
            i += WALK_BLOCK;
    }
    return i;
}

WALK_TARGET static inline uint64_t walk_block(const uint64_t *words, uint64_t before, bool edges,
                                              uint64_t *bits)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i last = _mm256_set1_epi64x((long long)before);
    uint64_t clear = 0;

    BITMAP_UNROLL
    for (unsigned i = 0; i < WALK_BLOCK; i += VECTOR_WORDS) {
        __m256i word = load(words + i);
        __m256i found = word;

        if (edges) {
            __m256i turned = _mm256_permute4x64_epi64(word, 0x93); /* words 3, 0, 1, 2 */
            __m256i earlier = _mm256_blend_epi32(turned, last, 0x03);

            found = _mm256_or_si256(_mm256_slli_epi64(word, 1), _mm256_srli_epi64(earlier, 63));
            found = _mm256_xor_si256(word, found);
            last = turned;
        }
        _mm256_storeu_si256((__m256i *)(void *)(bits + i), found);
        clear |= (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(found, zero)))
                 << i;
    }
    return ~clear;
}

/* Four numbers, sixteen, or by eights, whether there are as many or not: few branches, and those
 * well foreseen. */
WALK_TARGET static inline size_t walk_put(uint64_t *out, uint64_t base, uint64_t bits)
{
    size_t n = (size_t)__builtin_popcountll(bits);

    BITMAP_UNROLL
    for (unsigned i = 0; i < 4; i++, bits &= bits - 1)
        out[i] = base + _tzcnt_u64(bits);
    if (n <= 4)
        return n;
    BITMAP_UNROLL
    for (unsigned i = 4; i < 16; i++, bits &= bits - 1)
        out[i] = base + _tzcnt_u64(bits);
    for (size_t done = 16; done < n; done += 8) {
        BITMAP_UNROLL
        for (unsigned i = 0; i < 8; i++, bits &= bits - 1)
            out[done + i] = base + _tzcnt_u64(bits);
    }
    return n;
}

WALK_TARGET static inline void walk_pair(struct bitmap_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        runs[i].count -= runs[i].first;
}

#include "vmm/base/bitmap_walk.h"

WALK_TARGET static uint64_t avx2_count(const uint64_t *words, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    uint64_t a = 0, b = 0;
    size_t i = 0;

    if (!nwords)
        return 0;
    for (; i + 4 < nwords; i += 4) {
        a +=
            (uint64_t)__builtin_popcountll(words[i]) + (uint64_t)__builtin_popcountll(words[i + 1]);
        b += (uint64_t)__builtin_popcountll(words[i + 2]) +
             (uint64_t)__builtin_popcountll(words[i + 3]);
    }
    for (; i + 1 < nwords; i++)
        a += (uint64_t)__builtin_popcountll(words[i]);
    return a + b + (uint64_t)__builtin_popcountll(words[i] & walk_tail_mask(nbits));
}

WALK_TARGET static bool avx2_any(const uint64_t *words, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    size_t i = 0;

    if (!nwords)
        return false;
    for (; i + WALK_BLOCK < nwords; i += WALK_BLOCK) {
        if (!block_is(words + i, 0))
            return true;
    }
    for (; i + 1 < nwords; i++) {
        if (words[i])
            return true;
    }
    return (words[i] & walk_tail_mask(nbits)) != 0;
}

WALK_TARGET static uint64_t avx2_merge(uint64_t *into, const uint64_t *from, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    uint64_t count = 0;

    if (!nwords)
        return 0;
    for (size_t i = 0; i < nwords; i++) {
        into[i] |= from[i];
        count += (uint64_t)__builtin_popcountll(into[i]);
    }
    return count - (uint64_t)__builtin_popcountll(into[nwords - 1] & ~walk_tail_mask(nbits));
}

static bool avx2_supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

const struct bitmap_path bitmap_path_avx2 = {
    .name = "avx2",
    .supported = avx2_supported,
    .runs = walk_runs,
    .pages = walk_pages,
    .count = avx2_count,
    .any = avx2_any,
    .merge = avx2_merge,
};

#endif
