/* SPDX-License-Identifier: MIT */
#include "recording_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "tools/dirty_recording.h"
#include "tools/dirty_recording_format.h"
#include "vmm/base/bitmap.h"

const struct recorded_region recording_fixture_layout[NREGIONS] = {
    {.gpa = 0, .npages = 1}, {.gpa = 1ull << 32, .npages = ODD_PAGES}, {0xe0000000, LAST_PAGES}};

int recording_fixture_enter(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    assert_non_null(folder);
    strcpy(folder->path, "/tmp/pageferry-recording.XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    (void)snprintf(folder->file, sizeof(folder->file), "%s/file", folder->path);
    *state = folder;
    return 0;
}

unsigned recording_fixture_count_files(const struct folder *folder)
{
    DIR *dir = opendir(folder->path);
    unsigned n = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

int recording_fixture_leave(void **state)
{
    struct folder *folder = *state;

    (void)unlink(folder->file);
    assert_int_equal(rmdir(folder->path), 0); /* nothing was left */
    free(folder);
    return 0;
}

/* Is a page dirty in a round? */
static bool is_dirty(unsigned round, unsigned region, uint64_t page)
{
    uint64_t x = (page + 1) * 0x9e3779b97f4a7c15ull + round * 77 + region;

    if (round == 0)
        return true;
    return round == 2 ? page % 64 < 3 : (x >> 40) % (5u * round) == 0;
}

static void add_chunk(struct dirty_recorder *recorder, unsigned round, unsigned region,
                      uint64_t first, uint64_t npages)
{
    /* Tail bits are never looked at, whoever set them. */
    uint64_t words[LAST_PAGES / 64 + 1];

    memset(words, npages % 64 ? 0xff : 0, sizeof(words));
    for (uint64_t i = 0; i < npages; i++) {
        if (is_dirty(round, region, first + i))
            bitmap_set(words, i);
        else
            bitmap_clear(words, i);
    }
    dirty_recorder_add(recorder, region, first, npages, words);
}

void recording_fixture_add_round(struct dirty_recorder *recorder, unsigned round, uint64_t chunk)
{
    for (unsigned r = 0; r < NREGIONS; r++) {
        for (uint64_t first = 0; first < recording_fixture_layout[r].npages; first += chunk) {
            uint64_t left = recording_fixture_layout[r].npages - first;

            add_chunk(recorder, round, r, first, left < chunk ? left : chunk);
        }
    }
}

struct dirty_recorder *recording_fixture_must_open(const struct folder *folder)
{
    struct dirty_recorder *recorder = NULL;
    struct error err = {""};

    if (dirty_recorder_open(&recorder, folder->file, recording_fixture_layout, NREGIONS, &err))
        fail_msg("%s", err.text);
    return recorder;
}

void recording_fixture_record(const struct folder *folder)
{
    struct dirty_recorder *recorder = recording_fixture_must_open(folder);
    struct error err = {""};

    for (unsigned round = 0; round < NROUNDS; round++) {
        assert_int_equal(dirty_recorder_rounds(recorder), round);
        recording_fixture_add_round(recorder, round, 64u << round);
        /* The last round is ended by the close; a second end is none. */
        if (round < NROUNDS - 1 &&
            (dirty_recorder_end_round(recorder, &err) || dirty_recorder_end_round(recorder, &err)))
            fail_msg("%s", err.text);
    }
    if (dirty_recorder_close(recorder, &err))
        fail_msg("%s", err.text);
}

static void expect_whole(const struct dirty_recording *recording)
{
    assert_int_equal(recording->nrounds, NROUNDS);
    assert_int_equal(recording->nregions, NREGIONS);
    assert_int_equal(recording->nbitmaps, NROUNDS * NREGIONS);
    for (unsigned i = 0; i < recording->nbitmaps; i++) {
        const struct recorded_bitmap *bitmap = &recording->bitmap[i];
        uint64_t dirty_pages = 0;

        assert_int_equal(bitmap->round, i / NREGIONS);
        assert_int_equal(bitmap->region, i % NREGIONS);
        assert_int_equal(bitmap->gpa, recording_fixture_layout[bitmap->region].gpa);
        assert_int_equal(bitmap->npages, recording_fixture_layout[bitmap->region].npages);
        for (uint64_t page = 0; page < bitmap_words(bitmap->npages) * 64; page++) {
            bool dirty = page < bitmap->npages && is_dirty(bitmap->round, bitmap->region, page);

            assert_int_equal(bitmap_test(bitmap->words, page), dirty);
            dirty_pages += dirty;
        }
        assert_int_equal(bitmap->dirty_pages, dirty_pages);
    }
}

int recording_fixture_load(const struct folder *folder, struct error *err)
{
    struct dirty_recording *recording = NULL;
    int rc = dirty_recording_load(folder->file, &recording, err);

    /* What is taken for sound must be what was recorded. */
    if (!rc)
        expect_whole(recording);
    else
        assert_null(recording);
    dirty_recording_free(recording);
    return rc;
}

size_t recording_fixture_read_file(const struct folder *folder, uint8_t *data)
{
    int fd = open(folder->file, O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, data, MAX_BYTES);
    assert_true(n > 0 && n < MAX_BYTES);
    close(fd);
    return (size_t)n;
}

void recording_fixture_write_file(const struct folder *folder, const void *data, size_t bytes)
{
    int fd = open(folder->file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

/* A file of `nwords` words of contents. */
void recording_fixture_forge(const struct folder *folder, const uint64_t *words, size_t nwords)
{
    struct recording_file_header header = {.version = htole32(1), .page_bytes = htole32(4096)};
    size_t room = ZSTD_compressBound(nwords * 8);
    uint64_t *little = malloc(nwords * 8);
    uint8_t *file = malloc(sizeof(header) + room);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    size_t bytes;

    assert_true(little && file && zstd);
    for (size_t i = 0; i < nwords; i++)
        little[i] = htole64(words[i]);
    memcpy(header.magic, RECORDING_MAGIC, sizeof(header.magic));
    memcpy(file, &header, sizeof(header));
    (void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    bytes = ZSTD_compress2(zstd, file + sizeof(header), room, little, nwords * 8);
    assert_false(ZSTD_isError(bytes));
    recording_fixture_write_file(folder, file, sizeof(header) + bytes);
    ZSTD_freeCCtx(zstd);
    free(file);
    free(little);
}
