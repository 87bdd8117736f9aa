/* SPDX-License-Identifier: MIT */
#include "tools/bench_bitmap_cases.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/dirty_recording.h"

#define PAGE_SHIFT 12

/* Of the short ones several, each filled differently: a bitmap that is walked again and again is
 * one whose every branch the CPU foresees, which no migration has. */
static const struct {
    unsigned kib, nbitmaps;
} sizes[] = {{32, 16}, {512, 1}};

struct density {
    const char *name;
    unsigned per_million; /* dirty pages */
    unsigned run_pages;   /* their runs are this long, longer where two meet */
};

static const struct density densities[] = {
    {"empty", 0, 1},
    {"0.01%", 100, 1},
    {"0.01% runs of 16", 100, 16},
    {"0.1%", 1000, 1},
    {"0.1% runs of 16", 1000, 16},
    {"0.1% runs of 512", 1000, 512},
    {"1%", 10000, 1},
    {"1% runs of 16", 10000, 16},
    {"1% runs of 512", 10000, 512},
    {"10%", 100000, 1},
    {"10% runs of 16", 100000, 16},
    {"10% runs of 512", 100000, 512},
    {"50%", 500000, 1},
    {"50% runs of 16", 500000, 16},
    {"50% runs of 512", 500000, 512},
    {"full", 1000000, 1},
};

/* xorshift64 (Marsaglia): the same numbers in every run. */
static uint64_t random64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill(uint64_t *words, uint64_t nbits, const struct density *density, uint64_t *seed)
{
    uint64_t wanted = nbits / 1000 * density->per_million / 1000;
    uint64_t slots = nbits / density->run_pages;

    if (density->per_million == 1000000)
        memset(words, 0xff, bitmap_words(nbits) * sizeof(words[0]));
    /* Runs of 16 and more begin at multiples of half their length: anywhere within a word, and two
     * of them may meet. */
    for (uint64_t set = 0; density->per_million < 1000000 && set < wanted;) {
        uint64_t first = density->run_pages == 1
                             ? random64(seed) % nbits
                             : random64(seed) % (2 * slots - 1) * (density->run_pages / 2);

        for (unsigned i = 0; i < density->run_pages && set < wanted; i++) {
            set += !bitmap_test(words, first + i);
            bitmap_set(words, first + i);
        }
    }
}

static struct bench_case *add_case(struct bench_cases *cases, unsigned nbitmaps)
{
    struct bench_case *grown = realloc(cases->at, (cases->count + 1) * sizeof(*grown));

    if (!grown)
        return NULL;
    cases->at = grown;
    grown += cases->count;
    *grown = (struct bench_case){.bitmap = calloc(nbitmaps, sizeof(grown->bitmap[0]))};
    if (!grown->bitmap)
        return NULL;
    cases->count++;
    return grown;
}

/* Room for a bitmap, all clear. Cache lines are not to be shared with anything else. */
static uint64_t *add_bitmap(struct bench_case *added, uint64_t nbits, uint64_t first_gfn)
{
    size_t bytes = (bitmap_words(nbits) * sizeof(uint64_t) + 63) / 64 * 64;
    struct bench_bitmap *bitmap = &added->bitmap[added->nbitmaps];

    bitmap->words = aligned_alloc(64, bytes);
    if (!bitmap->words)
        return NULL;
    memset(bitmap->words, 0, bytes);
    bitmap->nbits = nbits;
    bitmap->first_gfn = first_gfn;
    added->nbitmaps++;
    added->bytes += bitmap_words(nbits) * sizeof(uint64_t);
    return bitmap->words;
}

/* What is to be found, one bit after the other. */
static void sum_up(struct bench_case *added)
{
    for (unsigned i = 0; i < added->nbitmaps; i++) {
        const struct bench_bitmap *bitmap = &added->bitmap[i];
        bool before = false;

        for (uint64_t bit = 0; bit < bitmap->nbits; bit++) {
            bool dirty = bitmap_test(bitmap->words, bit);

            added->runs += dirty && !before;
            added->sum.pages += dirty;
            added->sum.gfn_xor ^= dirty ? bitmap->first_gfn + bit : 0;
            before = dirty;
        }
    }
}

int bench_cases_add_synthetic(struct bench_cases *cases, struct error *err)
{
    uint64_t seed = 0x9e3779b97f4a7c15ull;

    for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
        for (size_t i = 0; i < sizeof(densities) / sizeof(densities[0]); i++) {
            uint64_t nbits = sizes[size].kib * 8192ull;
            struct bench_case *added = add_case(cases, sizes[size].nbitmaps);

            for (unsigned k = 0; added && k < sizes[size].nbitmaps; k++) {
                uint64_t *words = add_bitmap(added, nbits, 0x100 + k * nbits);

                if (!words)
                    return error_set(err, ENOMEM, "no memory for the bitmaps");
                fill(words, nbits, &densities[i], &seed);
            }
            if (!added)
                return error_set(err, ENOMEM, "no memory for the bitmaps");
            (void)snprintf(added->name, sizeof(added->name), "%s", densities[i].name);
            sum_up(added);
        }
    }
    return 0;
}

/* A file's name up to its first dot. It goes to terminals, CSV and JSON: plain characters only. */
static void name_case(struct bench_case *named, const char *file)
{
    (void)snprintf(named->name, sizeof(named->name), "%.*s", (int)strcspn(file, "."), file);
    for (char *c = named->name; *c; c++) {
        if (!isascii((unsigned char)*c) || !isgraph((unsigned char)*c) || strchr(",\"\\", *c))
            *c = '?';
    }
}

static int add_recording(struct bench_cases *cases, const char *path, struct error *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct dirty_recording *recording;
    struct bench_case *added;
    int rc = dirty_recording_load(path, &recording, err);

    if (rc)
        return rc;
    added = add_case(cases, recording->nbitmaps);
    if (!added)
        rc = error_set(err, ENOMEM, "no memory for %s", path);
    for (unsigned i = 0; !rc && i < recording->nbitmaps; i++) {
        const struct recorded_bitmap *from = &recording->bitmap[i];
        uint64_t *words;

        if (from->round == 0)
            continue;
        words = add_bitmap(added, from->npages, from->gpa >> PAGE_SHIFT);
        if (words)
            memcpy(words, from->words, bitmap_words(from->npages) * sizeof(words[0]));
        else
            rc = error_set(err, ENOMEM, "no memory for %s", path);
    }
    if (!rc && !added->nbitmaps)
        rc = error_set(err, EINVAL, "%s holds a full copy and no round after it", path);
    if (!rc) {
        added->recorded = true;
        name_case(added, name);
        sum_up(added);
    }
    dirty_recording_free(recording);
    return rc;
}

static int is_recording(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > strlen(DIRTY_RECORDING_SUFFIX) &&
           strcmp(entry->d_name + length - strlen(DIRTY_RECORDING_SUFFIX),
                  DIRTY_RECORDING_SUFFIX) == 0;
}

int bench_cases_add_corpus(struct bench_cases *cases, const char *path, struct error *err)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_recording, alphasort);
    int rc = 0;

    if (n < 0 && errno == ENOTDIR)
        return add_recording(cases, path, err);
    if (n < 0)
        return error_set(err, errno, "%s: %s", path, strerror(errno));
    if (n == 0)
        rc = error_set(err, ENOENT,
                       "no recording (*" DIRTY_RECORDING_SUFFIX
                       ") in %s: migrate --record-dirty makes them",
                       path);
    for (int i = 0; i < n; i++) {
        char file[4096];

        if (!rc &&
            snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name) >= (int)sizeof(file))
            rc = error_set(err, ENAMETOOLONG, "the path of recording %s is too long",
                           entries[i]->d_name);
        if (!rc)
            rc = add_recording(cases, file, err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

void bench_cases_free(struct bench_cases *cases)
{
    for (unsigned i = 0; i < cases->count; i++) {
        for (unsigned k = 0; k < cases->at[i].nbitmaps; k++)
            free(cases->at[i].bitmap[k].words);
        free(cases->at[i].bitmap);
    }
    free(cases->at);
    *cases = (struct bench_cases){0};
}
