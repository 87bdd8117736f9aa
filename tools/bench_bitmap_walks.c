/* SPDX-License-Identifier: MIT */
#include "tools/bench_bitmap_walks.h"

#include <string.h>
#include <strings.h>

#include "tools/bench_bitmap_read.h"

static inline void consume_page(struct bench_sum *sum, uint64_t gfn)
{
    sum->pages++;
    sum->gfn_xor ^= gfn;
}

/* Exclusive or of first…end - 1. That of 0…n - 1 is 0, n - 1, 1, n by n % 4, which is n where n is
 * odd, and one bit; no branch, which a CPU could not foresee. */
static inline void consume_run(struct bench_sum *sum, uint64_t gfn, uint64_t count)
{
    uint64_t end = gfn + count;
    uint64_t either = gfn ^ end;

    sum->pages += count;
    sum->gfn_xor ^= (gfn & -(gfn & 1)) ^ (end & -(end & 1)) ^ ((either ^ either >> 1) & 1);
}

/* As qemu-kvm did until 2010. Bytes lie in words as bits do: this program is for x86. */
static struct bench_sum walk_bytes(const struct bitmap_path *path,
                                   const struct bench_bitmap *bitmap)
{
    const uint8_t *bytes = (const uint8_t *)bitmap->words;
    size_t nbytes = bitmap_words(bitmap->nbits) * sizeof(uint64_t);
    struct bench_sum sum = {0};

    (void)path;
    for (size_t i = 0; i < nbytes; i++) {
        unsigned char c = bytes[i];

        while (c) {
            int bit = ffs(c) - 1;

            c &= (unsigned char)~(1u << bit);
            consume_page(&sum, bitmap->first_gfn + i * 8 + (uint64_t)bit);
        }
    }
    return sum;
}

/* As it did since. */
static struct bench_sum walk_words(const struct bitmap_path *path,
                                   const struct bench_bitmap *bitmap)
{
    size_t nwords = bitmap_words(bitmap->nbits);
    struct bench_sum sum = {0};

    (void)path;
    for (size_t i = 0; i < nwords; i++) {
        unsigned long c = bitmap->words[i];

        if (!c)
            continue;
        do {
            int bit = ffsl((long)c) - 1;

            c &= ~(1ul << bit);
            consume_page(&sum, bitmap->first_gfn + i * 64 + (uint64_t)bit);
        } while (c);
    }
    return sum;
}

static struct bench_sum walk_read(const struct bitmap_path *path, const struct bench_bitmap *bitmap)
{
    (void)path;
    return (struct bench_sum){
        .pages = bench_bitmap_read(bitmap->words, bitmap_words(bitmap->nbits)) != 0};
}

static struct bench_sum walk_path_runs(const struct bitmap_path *path,
                                       const struct bench_bitmap *bitmap)
{
    struct bitmap_run runs[BITMAP_RUNS_BATCH];
    struct bench_sum sum = {0};
    uint64_t position = 0;
    size_t n;

    while ((n = path->runs(bitmap->words, bitmap->nbits, &position, runs, BITMAP_RUNS_BATCH)) > 0) {
        for (size_t i = 0; i < n; i++)
            consume_run(&sum, bitmap->first_gfn + runs[i].first, runs[i].count);
    }
    return sum;
}

static struct bench_sum walk_path_pages(const struct bitmap_path *path,
                                        const struct bench_bitmap *bitmap)
{
    uint64_t pages[BITMAP_PAGES_BATCH];
    struct bench_sum sum = {0};
    uint64_t position = 0;
    size_t n;

    while ((n = path->pages(bitmap->words, bitmap->nbits, &position, pages, BITMAP_PAGES_BATCH)) >
           0) {
        for (size_t i = 0; i < n; i++)
            consume_page(&sum, bitmap->first_gfn + pages[i]);
    }
    return sum;
}

unsigned bench_walks(struct bench_walk walks[BENCH_WALKS_MAX], const struct bitmap_path *only)
{
    const struct bitmap_path *path;
    unsigned n = BENCH_WALK_PATHS;

    walks[BENCH_WALK_BYTE] = (struct bench_walk){"byte", "pages", NULL, walk_bytes};
    walks[BENCH_WALK_WORD] = (struct bench_walk){"word", "pages", NULL, walk_words};
    walks[BENCH_WALK_READ] = (struct bench_walk){"read", "words", NULL, walk_read};
    for (unsigned i = 0; (path = bitmap_path_at(i)); i++) {
        if (!path->supported() || (only && path != only))
            continue;
        walks[n++] = (struct bench_walk){path->name, "runs", path, walk_path_runs};
        walks[n++] = (struct bench_walk){path->name, "pages", path, walk_path_pages};
    }
    return n;
}

bool bench_walk_sums(const struct bench_walk *walk)
{
    return walk->walk != walk_read;
}
