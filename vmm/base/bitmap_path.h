/* SPDX-License-Identifier: MIT
 *
 * The ways of walking a bitmap: plain words everywhere, AVX2 and AVX-512 where the CPU has them.
 * bitmap.h chooses by itself; tests and benches reach each of them here. All are pure functions
 * with the contracts of the functions of the same name in bitmap.h, and all give the same answers,
 * except that batches may end at other places. */
#ifndef VMM_BASE_BITMAP_PATH_H
#define VMM_BASE_BITMAP_PATH_H

#include "vmm/base/bitmap.h"

struct bitmap_path {
    const char *name; /* scalar, avx2, avx512 */
    bool (*supported)(void);
    size_t (*runs)(const uint64_t *words, uint64_t nbits, uint64_t *position,
                   struct bitmap_run *runs, size_t max);
    /* As runs, but yields the index of every set bit, for those who want pages one by one. The fast
     * ways need room for 64. */
    size_t (*pages)(const uint64_t *words, uint64_t nbits, uint64_t *position, uint64_t *pages,
                    size_t max);
    uint64_t (*count)(const uint64_t *words, uint64_t nbits);
    bool (*any)(const uint64_t *words, uint64_t nbits);
    uint64_t (*merge)(uint64_t *into, const uint64_t *from, uint64_t nbits);
};

extern const struct bitmap_path bitmap_path_scalar;
#if defined(__x86_64__)
extern const struct bitmap_path bitmap_path_avx2;
extern const struct bitmap_path bitmap_path_avx512;
#endif

/* All that this build has, best first and scalar last; NULL past the end. A path that is not
 * supported() must not be called. */
const struct bitmap_path *bitmap_path_at(unsigned index);

/* The best that this CPU has. What it has was read once, when the program started (libgcc); each
 * call tests a few bits of that, so once per batch is cheap enough. */
const struct bitmap_path *bitmap_path_best(void);

#endif
