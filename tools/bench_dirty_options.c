/* SPDX-License-Identifier: MIT
 *
 * The command line of bench dirty-log. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench_dirty.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"
#include "vmm/dirty_ring.h"

#define MOST_ITERATIONS 100000u
#define DEFAULT_SLOT    SIZE_GIB
#define NOT_GIVEN       UINT64_MAX
#define DEFAULT_MOST    262144u
#define MOST_PAGES      (1ull << 30)
#define MOST_CHUNK      (1ull << 30)

static const char help[] =
    "usage: pageferry bench dirty-log [OPTION…]\n\n"
    "Times a pass over the dirty log of a guest that stored to exactly N pages.\n\n"
    "      --dirty LIST         N of each slot, e.g. 1,2,4…262144 (… doubles)\n"
    "      --preset NAME        2012, framebuffer or ram: slot and LIST of then\n"
    "      --slot SIZE          size of a slot (default 1G)\n"
    "      --slots N            number of slots (default 1)\n"
    "      --pattern NAME       spread (default), cluster or random\n"
    "      --backend LIST       of get, clear, ring (default: all that the host has)\n"
    "      --chunk LIST         pages of a claim, multiples of 64 (default 16K)\n"
    "      --clear-ranges LIST  of narrow (default), whole, split\n"
    "      --ring-entries N     of a vCPU's dirty ring (default: enough, if possible)\n"
    "      --backing KIND       anon, thp (default), memfd or hugetlb\n"
    "      --vcpus N            that store (default 1)\n"
    "      --ring 0|3           the privilege ring that stores (default 3)\n"
    "      --vcpus-running      measure with running vCPUs too\n"
    "      --iterations N       passes of each kind (default 10); one more is dropped\n"
    "      --pin                place every thread\n"
    "      --enable LIST        time switching on and off, by touched memory: 256M,4G\n"
    "      --compare FILE       ratios to an earlier run's --json\n"
    "      --json               one JSON object instead of the tables\n"
    "      --csv                a line for each row instead\n";

static const char *const ranges_names[BENCH_DIRTY_NRANGES] = {
    [DIRTY_LOG_RANGES_NARROW] = "narrow",
    [DIRTY_LOG_RANGES_WHOLE] = "whole",
    [DIRTY_LOG_RANGES_SPLIT] = "split",
};

static const struct preset {
    const char *name, *dirty;
    uint64_t npages;
} presets[] = {
    {"2012", "1..262144", 262144},
    {"framebuffer", "7..576", 4096},
    {"ram", "50..4143", 261888},
};

#define NPRESETS (sizeof(presets) / sizeof(presets[0]))

const char *bench_dirty_ranges_name(enum dirty_log_ranges ranges)
{
    return (unsigned)ranges < BENCH_DIRTY_NRANGES ? ranges_names[ranges] : "?";
}

static int parse_ranges(const char *name, unsigned *index, struct error *err)
{
    for (*index = 0; *index < BENCH_DIRTY_NRANGES; (*index)++) {
        if (strcmp(name, ranges_names[*index]) == 0)
            return 0;
    }
    return error_set(err, EINVAL, "'%s' is no kind of range: write narrow, whole or split", name);
}

static int parse_backend(const char *name, unsigned *index, struct error *err)
{
    enum dirty_log_backend backend = DIRTY_LOG_GET;
    int result = dirty_log_backend_parse(name, &backend, err);

    *index = (unsigned)backend;
    return result;
}

/* Names with commas between, each of which parse() turns into an index of `chosen`. */
static int parse_names(const char *text, int (*parse)(const char *, unsigned *, struct error *),
                       bool *chosen, struct error *err)
{
    for (;;) {
        size_t length = strcspn(text, ",");
        char word[16];
        unsigned index;
        int result;

        (void)snprintf(word, sizeof(word), "%.*s", (int)(length < 15 ? length : 15), text);
        result = parse(word, &index, err);
        if (result)
            return result;
        chosen[index] = true;
        if (!text[length])
            return 0;
        text += length + 1;
    }
}

/* What is text until the whole line was read. */
struct words {
    const char *dirty, *preset, *pattern, *backend, *chunk, *ranges, *backing, *touched, *compare;
    uint64_t slot_bytes, slots, ring_entries, vcpus, ring, iterations;
    bool json, csv;
};

static int take_preset(const struct words *words, struct bench_dirty_config *config,
                       const char **dirty, struct error *err)
{
    const struct preset *preset = presets;

    while (preset < presets + NPRESETS && strcmp(preset->name, words->preset) != 0)
        preset++;
    if (preset == presets + NPRESETS)
        return error_set(err, EINVAL, "--preset %s: it is 2012, framebuffer or ram", words->preset);
    if (words->dirty || words->slot_bytes != NOT_GIVEN || words->touched)
        return error_set(err, EINVAL,
                         "--preset %s sets --slot and --dirty: leave out those, and --enable",
                         words->preset);
    config->npages = preset->npages;
    config->table_2012 = preset == presets;
    *dirty = preset->dirty;
    return 0;
}

static int take_dirty(const struct words *words, struct bench_dirty_config *config,
                      struct error *err)
{
    uint64_t bytes = words->slot_bytes != NOT_GIVEN ? words->slot_bytes : DEFAULT_SLOT;
    uint64_t largest;
    char standard[32];
    const char *dirty = words->dirty;
    int result = 0;

    config->npages = bytes / MEMORY_PAGE_BYTES;
    if (words->preset)
        result = take_preset(words, config, &dirty, err);
    if (result)
        return result;
    if (!bytes || bytes % MEMORY_PAGE_BYTES || bytes / MEMORY_PAGE_BYTES > MOST_PAGES)
        return error_set(err, EINVAL, "--slot: a multiple of 4K up to 4096G is possible");
    (void)snprintf(standard, sizeof(standard), "1..%" PRIu64,
                   config->npages < DEFAULT_MOST ? config->npages : DEFAULT_MOST);
    if (config->npages == 1)
        standard[1] = '\0';
    result = bench_numbers_parse(dirty ? dirty : standard, &config->dirty, err);
    if (result) {
        error_prefix(err, "--dirty");
        return result;
    }
    largest = config->dirty.value[config->dirty.count - 1];
    if (largest > config->npages)
        return error_set(err, EINVAL,
                         "--dirty %" PRIu64 ": a slot has only %" PRIu64
                         " pages: --slot %lluK is the least",
                         largest, config->npages, largest * (MEMORY_PAGE_BYTES / SIZE_KIB));
    return 0;
}

static int take_chunk(const char *text, struct bench_numbers *chunk, struct error *err)
{
    int result = 0;

    if (text)
        result = bench_numbers_parse(text, chunk, err);
    else
        *chunk = (struct bench_numbers){.count = 1, .value = {DIRTY_LOG_CHUNK_PAGES}};
    for (unsigned i = 0; !result && i < chunk->count; i++) {
        if (chunk->value[i] % BITMAP_WORD_BITS || chunk->value[i] > MOST_CHUNK)
            result =
                error_set(err, EINVAL, "%" PRIu64 " pages: it must be a multiple of %u up to %llu",
                          chunk->value[i], BITMAP_WORD_BITS, MOST_CHUNK);
    }
    if (result)
        error_prefix(err, "--chunk");
    return result;
}

static int take_touched(const char *text, struct bench_numbers *touched, struct error *err)
{
    int result = bench_numbers_parse(text, touched, err);

    for (unsigned i = 0; !result && i < touched->count; i++) {
        if (touched->value[i] % MEMORY_PAGE_BYTES)
            result = error_set(err, EINVAL, "%" PRIu64 " bytes: it must be a multiple of 4K",
                               touched->value[i]);
    }
    if (result)
        error_prefix(err, "--enable");
    return result;
}

static int take_names(const struct words *words, struct bench_dirty_config *config,
                      struct error *err)
{
    int result = 0;

    if (words->backend)
        result = parse_names(words->backend, parse_backend, config->backend, err);
    if (!result)
        result = parse_names(words->ranges, parse_ranges, config->ranges, err);
    if (!result)
        result = bench_pattern_parse(words->pattern, &config->pattern, err);
    if (!result)
        result = memory_backing_parse(words->backing, &config->backing, err);
    return result;
}

static int take_counts(const struct words *words, struct bench_dirty_config *config,
                       struct error *err)
{
    if (words->ring != 0 && words->ring != 3)
        return error_set(err, EINVAL,
                         "--ring %" PRIu64 ": it is the privilege ring that stores, 0 or 3 (the "
                         "dirty ring's size is --ring-entries)",
                         words->ring);
    if (!words->slots || !words->vcpus || !words->iterations)
        return error_set(err, EINVAL, "--slots, --vcpus and --iterations are at least 1");
    if (words->touched && (words->dirty || words->slot_bytes != NOT_GIVEN || words->compare))
        return error_set(err, EINVAL,
                         "--enable makes no pass: leave out --slot, --dirty and --compare");
    if (!words->ring_entries)
        return error_set(err, EINVAL, "--ring-entries 0: a power of two, at least %u, is possible",
                         DIRTY_RING_MIN_ENTRIES);
    if (words->ring_entries != NOT_GIVEN && words->backend && !config->backend[DIRTY_LOG_RING])
        return error_set(err, EINVAL, "--ring-entries belongs to --backend ring");
    if (words->json && words->csv)
        return error_set(err, EINVAL, "--json and --csv: choose one");
    config->compare = words->compare;
    config->nslots = (unsigned)words->slots;
    config->ncpus = (unsigned)words->vcpus;
    config->privilege = (unsigned)words->ring;
    config->iterations = (unsigned)words->iterations;
    if (words->ring_entries != NOT_GIVEN)
        config->ring_entries = (uint32_t)words->ring_entries;
    config->format = words->json  ? BENCH_FORMAT_JSON
                     : words->csv ? BENCH_FORMAT_CSV
                                  : BENCH_FORMAT_TEXT;
    return 0;
}

enum options_result bench_dirty_options(int argc, char **argv, struct bench_dirty_config *config)
{
    struct words words = {.slot_bytes = NOT_GIVEN,
                          .ring_entries = NOT_GIVEN,
                          .slots = 1,
                          .vcpus = 1,
                          .ring = 3,
                          .iterations = 10,
                          .pattern = "spread",
                          .ranges = "narrow",
                          .backing = "thp"};
    const struct option_rule rules[] = {
        {"slot", 0, OPTION_SIZE, &words.slot_bytes, 0},
        {"slots", 0, OPTION_NUMBER, &words.slots, WRITER_VM_MAX_SLOTS},
        {"dirty", 0, OPTION_STRING, &words.dirty, 0},
        {"preset", 0, OPTION_STRING, &words.preset, 0},
        {"pattern", 0, OPTION_STRING, &words.pattern, 0},
        {"backend", 0, OPTION_STRING, &words.backend, 0},
        {"chunk", 0, OPTION_STRING, &words.chunk, 0},
        {"clear-ranges", 0, OPTION_STRING, &words.ranges, 0},
        {"ring-entries", 0, OPTION_NUMBER, &words.ring_entries, UINT32_MAX},
        {"backing", 0, OPTION_STRING, &words.backing, 0},
        {"vcpus", 0, OPTION_NUMBER, &words.vcpus, WRITER_VM_MAX_CPUS},
        {"ring", 0, OPTION_NUMBER, &words.ring, 3},
        {"vcpus-running", 0, OPTION_FLAG, &config->also_running, 0},
        {"iterations", 0, OPTION_NUMBER, &words.iterations, MOST_ITERATIONS},
        {"pin", 0, OPTION_FLAG, &config->pin, 0},
        {"enable", 0, OPTION_STRING, &words.touched, 0},
        {"compare", 0, OPTION_STRING, &words.compare, 0},
        {"json", 0, OPTION_FLAG, &words.json, 0},
        {"csv", 0, OPTION_FLAG, &words.csv, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0},
    };
    struct error err = {""};
    enum options_result parsed;
    char **operands;
    int noperands;
    int result;

    *config = (struct bench_dirty_config){0};
    parsed = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (parsed != OPTIONS_GO)
        return parsed;
    if (noperands) {
        log_error("bench dirty-log takes no operand: '%s' is left over", operands[0]);
        return OPTIONS_BAD;
    }
    result = take_dirty(&words, config, &err);
    if (!result)
        result = take_chunk(words.chunk, &config->chunk, &err);
    if (!result && words.touched)
        result = take_touched(words.touched, &config->touched, &err);
    if (!result)
        result = take_names(&words, config, &err);
    if (!result)
        result = take_counts(&words, config, &err);
    if (result) {
        log_error("%s", err.text);
        return OPTIONS_BAD;
    }
    return OPTIONS_GO;
}
