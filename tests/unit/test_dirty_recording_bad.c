/* SPDX-License-Identifier: MIT
 *
 * Recorded dirty bitmaps from anywhere: every way in which a file can be damaged. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include <cmocka.h>

#include "recording_fixture.h"
#include "tools/dirty_recording.h"
#include "tools/dirty_recording_format.h"
#include "vmm/base/bitmap.h"

/* Words of what the fixture records, and more. */
#define CONTENTS_WORDS 1024
#define CHANGES        2000

static void expect_refused(const struct folder *folder, const char *what)
{
    struct error err = {""};

    if (recording_fixture_load(folder, &err) != -EPROTO ||
        strncmp(err.text, folder->file, strlen(folder->file)) || !strstr(err.text, what))
        fail_msg("'%s' does not say '%s'", err.text, what);
}

static void refuses_every_truncation(void **state)
{
    const struct folder *folder = *state;
    uint8_t data[MAX_BYTES] = {0};
    size_t bytes;

    recording_fixture_record(folder);
    bytes = recording_fixture_read_file(folder, data);
    for (size_t cut = 0; cut < bytes; cut++) {
        recording_fixture_write_file(folder, data, cut);
        expect_refused(folder, cut < 16 ? "does not begin as one" : "cut off");
    }
    recording_fixture_write_file(folder, data, bytes + 1);
    expect_refused(folder, "bytes behind its end");
}

/* A flipped bit is found, unless it is one that changes nothing: zstd has a few (the window's size,
 * padding). */
static void finds_every_flipped_bit(void **state)
{
    const struct folder *folder = *state;
    uint8_t data[MAX_BYTES] = {0};
    unsigned harmless = 0;
    size_t bytes;

    recording_fixture_record(folder);
    bytes = recording_fixture_read_file(folder, data);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        struct error err = {""};

        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        recording_fixture_write_file(folder, data, bytes);
        if (recording_fixture_load(folder, &err) == 0)
            harmless++;
        else
            assert_non_null(strstr(err.text, folder->file));
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    print_message("%u of %zu flipped bits changed nothing\n", harmless, bytes * 8);
    assert_true(harmless < bytes * 8 / 100);
}

static void refuses_other_files(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recording *recording;
    struct error err = {""};
    uint8_t data[MAX_BYTES] = {0};
    size_t bytes;

    recording_fixture_record(folder);
    bytes = recording_fixture_read_file(folder, data);
    data[8] = 2;
    recording_fixture_write_file(folder, data, bytes);
    expect_refused(folder, "version 2, this pageferry reads 1");
    data[8] = 1;
    data[13] = 0x40;
    recording_fixture_write_file(folder, data, bytes);
    expect_refused(folder, "pages of 16384 bytes");
    data[13] = 0x10;
    data[0] = 'p';
    recording_fixture_write_file(folder, data, bytes);
    expect_refused(folder, "does not begin as one");
    assert_int_equal(dirty_recording_load("/nonexistent/file", &recording, &err), -ENOENT);
    assert_int_equal(dirty_recording_load(folder->path, &recording, &err), -EISDIR);
    assert_int_equal(dirty_recording_load("/dev/null", &recording, &err), -EPROTO);
    assert_non_null(strstr(err.text, "special file"));
}

/* Contents that a recorder would never make, sealed properly: header and words for the frame. */
struct forgery {
    const uint64_t *words;
    size_t nwords;
    int code;
    const char *said;
};

#define PAIR(low, high) ((uint64_t)(high) << 32 | (low))
#define END_WORD        0xffffffffull
#define FORGERY(code, said, ...)                                                             \
    {                                                                                        \
        (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8, code, (said) \
    }

static const struct forgery forgeries[] = {
    FORGERY(0, "", PAIR(1, 0), 0, 3, PAIR(0, 0), 2, 5, PAIR(END_WORD, 1), 2),
    FORGERY(EPROTO, "0 regions", PAIR(0, 0)),
    FORGERY(EPROTO, "33 regions", PAIR(33, 0)),
    FORGERY(EPROTO, "4294967295 regions", PAIR(END_WORD, 0)),
    FORGERY(EPROTO, "1 regions", PAIR(1, 1), 0, 3),
    FORGERY(EPROTO, "region 0 of 0 pages", PAIR(1, 0), 0, 0),
    FORGERY(EPROTO, "region 0 of 1073741825 pages", PAIR(1, 0), 0, (1u << 30) + 1),
    FORGERY(EPROTO, "region 0 of 18446744073709551615 pages", PAIR(1, 0), 0, UINT64_MAX),
    FORGERY(EPROTO, "region 0 at 0x1", PAIR(1, 0), 1, 1),
    FORGERY(EPROTO, "region 0 at 0xfffffffffffff000", PAIR(1, 0), 0 - 0x1000ull, 1),
    FORGERY(EPROTO, "no rounds", PAIR(1, 0), 0, 3, PAIR(END_WORD, 0), 0),
    FORGERY(EPROTO, "round 1, region 0 is out of order", PAIR(1, 0), 0, 3, PAIR(1, 0), 2, 5),
    FORGERY(EPROTO, "round 0, region 1 is out of order", PAIR(1, 0), 0, 3, PAIR(0, 1), 2, 5),
    FORGERY(EPROTO, "pages behind its end", PAIR(1, 0), 0, 3, PAIR(0, 0), 2, 9),
    FORGERY(EPROTO, "2 dirty pages, said 3", PAIR(1, 0), 0, 3, PAIR(0, 0), 3, 5),
    FORGERY(EPROTO, "tells of 2 rounds", PAIR(1, 0), 0, 3, PAIR(0, 0), 2, 5, PAIR(END_WORD, 2), 2),
    FORGERY(EPROTO, "and 3 dirty pages", PAIR(1, 0), 0, 3, PAIR(0, 0), 2, 5, PAIR(END_WORD, 1), 3),
    FORGERY(EPROTO, "tells of 0 rounds", PAIR(2, 0), 0, 3, 4096, 3, PAIR(0, 0), 2, 5,
            PAIR(END_WORD, 0), 2),
    FORGERY(EPROTO, "contents behind their end", PAIR(1, 0), 0, 3, PAIR(0, 0), 2, 5,
            PAIR(END_WORD, 1), 2, 0),
    FORGERY(EPROTO, "it ends after 24 bytes", PAIR(1, 0), 0, 3),
    FORGERY(EPROTO, "it ends after 40 bytes", PAIR(1, 0), 0, 1u << 30, PAIR(0, 0), 2),
};

static void refuses_forgeries(void **state)
{
    const struct folder *folder = *state;

    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        const struct forgery *f = &forgeries[i];
        struct dirty_recording *recording;
        struct error err = {""};

        recording_fixture_forge(folder, f->words, f->nwords);
        if (dirty_recording_load(folder->file, &recording, &err) != -f->code ||
            !strstr(err.text, f->said))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.text, f->said);
        if (!f->code)
            assert_int_equal(recording->bitmap[0].words[0], 5);
        dirty_recording_free(recording);
    }
}

static void expect_consistent(const struct dirty_recording *recording)
{
    assert_int_equal(recording->nbitmaps, recording->nrounds * recording->nregions);
    for (unsigned i = 0; i < recording->nbitmaps; i++) {
        const struct recorded_bitmap *bitmap = &recording->bitmap[i];

        assert_int_equal(bitmap_count(bitmap->words, bitmap->npages), bitmap->dirty_pages);
    }
}

/* The library would read both: a frame without a checksum, and the formats of its youth. */
static void refuses_frames_without_a_checksum(void **state)
{
    const struct folder *folder = *state;
    uint8_t data[MAX_BYTES];
    size_t bytes;

    recording_fixture_record(folder);
    bytes = recording_fixture_read_file(folder, data);
    data[16 + 4] &= (uint8_t)~4u;
    recording_fixture_write_file(folder, data, bytes - 4);
    expect_refused(folder, "no checksum");
    data[16] = 0x27;
    recording_fixture_write_file(folder, data, bytes);
    expect_refused(folder, "no zstd frame");
}

/* Damage that no checksum tells of: contents that were changed before they were sealed. */
static void survives_changed_contents(void **state)
{
    const struct folder *folder = *state;
    uint8_t data[MAX_BYTES];
    uint64_t words[CONTENTS_WORDS], changed[CONTENTS_WORDS];
    unsigned accepted = 0;
    uint32_t random = 1;
    size_t bytes, nwords;

    recording_fixture_record(folder);
    bytes = recording_fixture_read_file(folder, data);
    nwords = ZSTD_decompress(words, sizeof(words), data + 16, bytes - 16) / 8;
    assert_true(nwords > 0 && nwords <= CONTENTS_WORDS);
    for (int i = 0; i < CHANGES; i++) {
        struct dirty_recording *recording = NULL;
        struct error err = {""};

        for (size_t w = 0; w < nwords; w++)
            changed[w] = le64toh(words[w]);
        for (int flips = 0; flips <= i % 3; flips++) {
            random = random * 1664525u + 1013904223u;
            changed[(random >> 8) % (i % 2 ? nwords : 12)] ^= 1ull << (random >> 2 & 63);
        }
        recording_fixture_forge(folder, changed, nwords);
        if (dirty_recording_load(folder->file, &recording, &err) == 0) {
            expect_consistent(recording);
            accepted++;
        } else {
            assert_non_null(strstr(err.text, folder->file));
        }
        dirty_recording_free(recording);
    }
    print_message("%u of %d changed files were still consistent\n", accepted, CHANGES);
}

/* A few kilobytes that name gigabytes: the loader stops at its limit. */
static void stops_at_its_limit(void **state)
{
    const struct folder *folder = *state;
    const size_t npages = 1u << 26, nrounds = 130; /* 8 MiB a round */
    const size_t record_words = 2 + npages / 64;
    size_t nwords = 3 + nrounds * record_words;
    uint64_t *words = calloc(nwords, 8);
    struct dirty_recording *recording;
    struct error err = {""};
    struct stat info;

    assert_non_null(words);
    words[0] = 1;
    words[2] = npages;
    for (size_t round = 0; round < nrounds; round++)
        words[3 + round * record_words] = round;
    recording_fixture_forge(folder, words, nwords);
    free(words);
    assert_int_equal(stat(folder->file, &info), 0);
    assert_int_equal(dirty_recording_load(folder->file, &recording, &err), -E2BIG);
    assert_non_null(strstr(err.text, "more than 1024 MiB of bitmaps"));
    print_message("stopped a file of %lld bytes\n", (long long)info.st_size);
}

#define IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, recording_fixture_enter, recording_fixture_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(refuses_every_truncation),
        IN_FOLDER(finds_every_flipped_bit),
        IN_FOLDER(refuses_other_files),
        IN_FOLDER(refuses_forgeries),
        IN_FOLDER(survives_changed_contents),
        IN_FOLDER(stops_at_its_limit),
        IN_FOLDER(refuses_frames_without_a_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
