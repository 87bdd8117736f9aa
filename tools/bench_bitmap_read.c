/* SPDX-License-Identifier: MIT */
#include "tools/bench_bitmap_read.h"

#include <immintrin.h>

static uint64_t read_words(const uint64_t *words, size_t nwords, uint64_t sum)
{
    for (size_t i = 0; i < nwords; i++)
        sum |= words[i];
    return sum;
}

/* Four sums, so that no load waits for the one before it. */
__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint64_t *words, size_t nwords)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    size_t i;

    for (i = 0; i + 32 <= nwords; i += 32) {
        a = _mm512_or_si512(a, _mm512_loadu_si512(words + i));
        b = _mm512_or_si512(b, _mm512_loadu_si512(words + i + 8));
        c = _mm512_or_si512(c, _mm512_loadu_si512(words + i + 16));
        d = _mm512_or_si512(d, _mm512_loadu_si512(words + i + 24));
    }
    a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    return read_words(words + i, nwords - i, (uint64_t)_mm512_reduce_or_epi64(a));
}

__attribute__((target("avx2"))) static inline __m256i load(const uint64_t *words)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const uint64_t *words, size_t nwords)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    uint64_t parts[4];
    size_t i;

    for (i = 0; i + 16 <= nwords; i += 16) {
        a = _mm256_or_si256(a, load(words + i));
        b = _mm256_or_si256(b, load(words + i + 4));
        c = _mm256_or_si256(c, load(words + i + 8));
        d = _mm256_or_si256(d, load(words + i + 12));
    }
    a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    _mm256_storeu_si256((__m256i *)(void *)parts, a);
    return read_words(words + i, nwords - i, parts[0] | parts[1] | parts[2] | parts[3]);
}

uint64_t bench_bitmap_read(const uint64_t *words, size_t nwords)
{
    if (__builtin_cpu_supports("avx512f"))
        return read_avx512(words, nwords);
    if (__builtin_cpu_supports("avx2"))
        return read_avx2(words, nwords);
    return read_words(words, nwords, 0);
}
