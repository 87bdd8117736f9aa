/* SPDX-License-Identifier: MIT */
#include "vmm/base/zero_page.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static bool always(void)
{
    return true;
}

static bool check_scalar(const void *page)
{
    const uint64_t *words = page;

    for (size_t i = 0; i < ZERO_PAGE_BYTES / sizeof(uint64_t); i += 8) {
        if (words[i] | words[i + 1] | words[i + 2] | words[i + 3] | words[i + 4] | words[i + 5] |
            words[i + 6] | words[i + 7])
            return false;
    }
    return true;
}

#if defined(__x86_64__)

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

/* Two cache lines at a time: one branch for as much as one load pair of ports brings. */
__attribute__((target("avx2"))) static bool check_avx2(const void *page)
{
    const __m256i *vectors = page;

    for (size_t i = 0; i < ZERO_PAGE_BYTES / sizeof(__m256i); i += 4) {
        __m256i low =
            _mm256_or_si256(_mm256_load_si256(vectors + i), _mm256_load_si256(vectors + i + 1));
        __m256i high =
            _mm256_or_si256(_mm256_load_si256(vectors + i + 2), _mm256_load_si256(vectors + i + 3));
        __m256i all = _mm256_or_si256(low, high);

        if (!_mm256_testz_si256(all, all))
            return false;
    }
    return true;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx512f"))) static bool check_avx512(const void *page)
{
    const uint8_t *bytes = page;

    for (size_t at = 0; at < ZERO_PAGE_BYTES; at += 128) {
        __m512i all =
            _mm512_or_si512(_mm512_load_si512(bytes + at), _mm512_load_si512(bytes + at + 64));

        if (_mm512_test_epi64_mask(all, all))
            return false;
    }
    return true;
}

#endif

const struct zero_page_path *zero_page_path_at(unsigned index)
{
    static const struct zero_page_path paths[] = {
#if defined(__x86_64__)
        {"avx512", has_avx512, check_avx512},
        {"avx2", has_avx2, check_avx2},
#endif
        {"scalar", always, check_scalar},
    };

    return index < sizeof(paths) / sizeof(paths[0]) ? &paths[index] : NULL;
}

zero_page_check *zero_page_best(void)
{
    unsigned index = 0;

    while (!zero_page_path_at(index)->supported())
        index++;
    return zero_page_path_at(index)->check;
}
