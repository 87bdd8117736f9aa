/* SPDX-License-Identifier: MIT */
#include "tools/bench_bitmap_walks.h"

#include "tools/bench_bitmap_read.h"

static inline void consume_page(struct bench_sum *sum, uint64_t gfn)
{
    sum->pages++;
    sum->gfn_xor ^= gfn;
}

/* The exclusive or of 0…n - 1 is 0, n - 1, 1, n by n % 4: n where that is odd, and one more bit. So
 * a run takes no loop and no branch, and the one more bits of all runs are summed up as one. */
struct run_sum {
    uint64_t pages;
    uint64_t odd_xor; /* of odd begins and ends */
    uint64_t all_xor; /* of all begins and ends */
};

static inline void consume_run(struct run_sum *sum, uint64_t gfn, uint64_t count)
{
    uint64_t end = gfn + count;

    sum->pages += count;
    sum->odd_xor ^= (gfn & -(gfn & 1)) ^ (end & -(end & 1));
    sum->all_xor ^= gfn ^ end;
}

static struct bench_sum sum_of_runs(const struct run_sum *sum)
{
    return (struct bench_sum){.pages = sum->pages,
                              .gfn_xor = sum->odd_xor ^ ((sum->all_xor ^ sum->all_xor >> 1) & 1)};
}

/* As qemu-kvm did until 2010; ffs() within the loop and not a call, as compilers had it then. Bytes
 * lie in words as bits do: this program is for x86. */
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
            int bit = __builtin_ffs(c) - 1;

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
            int bit = __builtin_ffsl((long)c) - 1;

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
    struct run_sum sum = {0};
    uint64_t position = 0;
    size_t n;

    while ((n = path->runs(bitmap->words, bitmap->nbits, &position, runs, BITMAP_RUNS_BATCH)) > 0) {
        for (size_t i = 0; i < n; i++)
            consume_run(&sum, bitmap->first_gfn + runs[i].first, runs[i].count);
    }
    return sum_of_runs(&sum);
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
