/* SPDX-License-Identifier: MIT
 *
 * Contents that differ from page to page and from word to word. */
#ifndef GUEST_USER_CONTENT_H
#define GUEST_USER_CONTENT_H

#include <stdint.h>

#define CONTENT_WORDS 512 /* 64-bit words of a page */

/* A bijection whose every output bit depends on every input bit. */
static inline uint64_t content_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

/* Word `n` of what content_mix() made of a page's identity. */
static inline uint64_t content_word(uint64_t base, uint64_t n)
{
    return base + n * 0x9e3779b97f4a7c15ull;
}

/* Fills a page: no two pages (by `identity`) share a word but by accident; word 0 is not zero. */
static inline void content_fill(uint64_t gpa, uint64_t identity)
{
    volatile uint64_t *words = (volatile uint64_t *)gpa;
    uint64_t base = content_mix(identity + 1);

    for (uint64_t n = 0; n < CONTENT_WORDS; n++)
        words[n] = content_word(base, n);
}

#endif
