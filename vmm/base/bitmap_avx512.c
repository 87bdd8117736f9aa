/* SPDX-License-Identifier: MIT
 *
 * Bitmaps by 512-bit vectors, for CPUs that have VPOPCNTDQ too (Ice Lake, Zen 4 and later); earlier
 * ones, which clock down for wide vectors, take AVX2. Compiled with the rest for any x86-64; only
 * these functions may use the instructions, and only where the CPU says that it has them. */
#include "vmm/base/bitmap_path.h"
#include "vmm/base/bitmap_unroll.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WALK_TARGET \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi,bmi2,popcnt")))
#define WALK_BLOCK 64

#define VECTOR_WORDS 8u

/* Truth tables of vpternlog. */
#define A_OR_B_UNLIKE_C 0xf6 /* a | (b ^ c) */
#define A_UNLIKE_B_OR_C 0x1e /* a ^ (b | c) */

WALK_TARGET static inline __m512i load(const uint64_t *words)
{
    return _mm512_loadu_si512(words);
}

/* A mask for the first n words, n <= 8. */
static inline __mmask8 first_words(size_t n)
{
    return (__mmask8)((1u << n) - 1);
}

/* Is every word of the block like `skip`, whose words are all clear or all set? */
WALK_TARGET static inline bool block_is(const uint64_t *words, __m512i skip)
{
    __m512i even = _mm512_xor_si512(load(words), skip);
    __m512i odd = _mm512_xor_si512(load(words + VECTOR_WORDS), skip);

    BITMAP_UNROLL
    for (unsigned i = 2 * VECTOR_WORDS; i < WALK_BLOCK; i += 2 * VECTOR_WORDS) {
        even = _mm512_ternarylogic_epi64(even, load(words + i), skip, A_OR_B_UNLIKE_C);
        odd = _mm512_ternarylogic_epi64(odd, load(words + i + VECTOR_WORDS), skip, A_OR_B_UNLIKE_C);
    }
    even = _mm512_or_si512(even, odd);
    return _mm512_test_epi64_mask(even, even) == 0;
}

WALK_TARGET static inline size_t walk_skip(const uint64_t *words, size_t i, size_t end,
                                           uint64_t skip)
{
    __m512i vector = _mm512_set1_epi64((long long)skip);

    while (i + WALK_BLOCK <= end && block_is(words + i, vector))
        i += WALK_BLOCK;
    return i;
}

WALK_TARGET static inline uint64_t walk_block(const uint64_t *words, uint64_t before, bool edges,
                                              uint64_t *bits)
{
    __m512i last = _mm512_set1_epi64((long long)before);
    uint64_t look = 0;

    BITMAP_UNROLL
    for (unsigned i = 0; i < WALK_BLOCK; i += VECTOR_WORDS) {
        __m512i word = load(words + i);
        __m512i found = word;

        if (edges) {
            __m512i earlier = _mm512_alignr_epi64(word, last, 7);

            found = _mm512_ternarylogic_epi64(word, _mm512_slli_epi64(word, 1),
                                              _mm512_srli_epi64(earlier, 63), A_UNLIKE_B_OR_C);
            last = word;
        }
        _mm512_storeu_si512(bits + i, found);
        look |= (uint64_t)_mm512_test_epi64_mask(found, found) << i;
    }
    return look;
}

/* Few bits: four numbers whether there are as many or not. Many: a byte's worth at a time, packed
 * together; where each byte's numbers go is the sum of the counts before it. */
WALK_TARGET static inline size_t walk_put(uint64_t *out, uint64_t base, uint64_t bits)
{
    size_t n = (size_t)__builtin_popcountll(bits);
    __m512i numbers;

    if (n <= 4) {
        BITMAP_UNROLL
        for (unsigned i = 0; i < 4; i++, bits &= bits - 1)
            out[i] = base + _tzcnt_u64(bits);
        return n;
    }
    numbers = _mm512_add_epi64(_mm512_set1_epi64((long long)base),
                               _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    BITMAP_UNROLL
    for (unsigned i = 0; i < 8; i++, bits >>= 8) {
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi64((__mmask8)bits, numbers));
        out += __builtin_popcountll(bits & 0xff);
        numbers = _mm512_add_epi64(numbers, _mm512_set1_epi64(8));
    }
    return n;
}

/* Every second number less the one before it. */
WALK_TARGET static inline void walk_pair(struct bitmap_run *runs, size_t n)
{
    uint64_t *numbers = (uint64_t *)runs;

    for (size_t i = 0; i < 2 * n; i += VECTOR_WORDS) {
        size_t left = 2 * n - i;
        __mmask8 mask = left < VECTOR_WORDS ? first_words(left) : 0xff;
        __m512i pair = _mm512_maskz_loadu_epi64(mask, numbers + i);
        __m512i first = _mm512_castpd_si512(_mm512_movedup_pd(_mm512_castsi512_pd(pair)));

        _mm512_mask_storeu_epi64(numbers + i, mask, _mm512_mask_sub_epi64(pair, 0xaa, pair, first));
    }
}

#include "vmm/base/bitmap_walk.h"

/* Bits of vector i of a bitmap with nbits; past the end all clear. */
WALK_TARGET static inline __m512i counted(const uint64_t *words, size_t i, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    __m512i mask;

    if (i + VECTOR_WORDS < nwords)
        return load(words + i);
    mask = _mm512_mask_set1_epi64(_mm512_set1_epi64(-1), (__mmask8)(1u << (nwords - 1 - i)),
                                  (long long)walk_tail_mask(nbits));
    return _mm512_and_si512(_mm512_maskz_loadu_epi64(first_words(nwords - i), words + i), mask);
}

WALK_TARGET static uint64_t avx512_count(const uint64_t *words, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    __m512i count = _mm512_setzero_si512();

    for (size_t i = 0; i < nwords; i += VECTOR_WORDS)
        count = _mm512_add_epi64(count, _mm512_popcnt_epi64(counted(words, i, nbits)));
    return (uint64_t)_mm512_reduce_add_epi64(count);
}

WALK_TARGET static bool avx512_any(const uint64_t *words, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    size_t i = 0;

    for (; i + WALK_BLOCK < nwords; i += WALK_BLOCK) {
        if (!block_is(words + i, _mm512_setzero_si512()))
            return true;
    }
    for (; i < nwords; i += VECTOR_WORDS) {
        __m512i bits = counted(words, i, nbits);

        if (_mm512_test_epi64_mask(bits, bits))
            return true;
    }
    return false;
}

WALK_TARGET static uint64_t avx512_merge(uint64_t *into, const uint64_t *from, uint64_t nbits)
{
    size_t nwords = bitmap_words(nbits);
    __m512i count = _mm512_setzero_si512();

    for (size_t i = 0; i < nwords; i += VECTOR_WORDS) {
        size_t left = nwords - i;
        __mmask8 mask = left < VECTOR_WORDS ? first_words(left) : 0xff;
        __m512i merged = _mm512_or_si512(_mm512_maskz_loadu_epi64(mask, into + i),
                                         _mm512_maskz_loadu_epi64(mask, from + i));

        _mm512_mask_storeu_epi64(into + i, mask, merged);
        if (left <= VECTOR_WORDS)
            merged = counted(into, i, nbits);
        count = _mm512_add_epi64(count, _mm512_popcnt_epi64(merged));
    }
    return (uint64_t)_mm512_reduce_add_epi64(count);
}

static bool avx512_supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

const struct bitmap_path bitmap_path_avx512 = {
    .name = "avx512",
    .supported = avx512_supported,
    .runs = walk_runs,
    .pages = walk_pages,
    .count = avx512_count,
    .any = avx512_any,
    .merge = avx512_merge,
};

#endif
