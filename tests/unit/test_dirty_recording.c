/* SPDX-License-Identifier: MIT
 *
 * Recorded dirty bitmaps: there and back, every way in which a file can be damaged, and recorders
 * that fail. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "tools/dirty_recording.h"
#include "tools/dirty_recording_format.h"
#include "vmm/base/bitmap.h"

#define NREGIONS   3
#define NROUNDS    5
#define MAX_BYTES  4096
#define ODD_PAGES  133
#define LAST_PAGES 4096

static const struct recorded_region layout[NREGIONS] = {
    {.gpa = 0, .npages = 1}, {.gpa = 1ull << 32, .npages = ODD_PAGES}, {0xe0000000, LAST_PAGES}};

struct folder {
    char path[64];
    char file[96];
};

static int enter(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    assert_non_null(folder);
    strcpy(folder->path, "/tmp/pageferry-recording.XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    (void)snprintf(folder->file, sizeof(folder->file), "%s/file", folder->path);
    *state = folder;
    return 0;
}

static unsigned count_files(const struct folder *folder)
{
    DIR *dir = opendir(folder->path);
    unsigned n = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static int leave(void **state)
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

static void add_round(struct dirty_recorder *recorder, unsigned round, uint64_t chunk)
{
    for (unsigned r = 0; r < NREGIONS; r++) {
        for (uint64_t first = 0; first < layout[r].npages; first += chunk) {
            uint64_t left = layout[r].npages - first;

            add_chunk(recorder, round, r, first, left < chunk ? left : chunk);
        }
    }
}

static struct dirty_recorder *must_open(const struct folder *folder)
{
    struct dirty_recorder *recorder = NULL;
    struct error err = {""};

    if (dirty_recorder_open(&recorder, folder->file, layout, NREGIONS, &err))
        fail_msg("%s", err.text);
    return recorder;
}

static void record(const struct folder *folder)
{
    struct dirty_recorder *recorder = must_open(folder);
    struct error err = {""};

    for (unsigned round = 0; round < NROUNDS; round++) {
        assert_int_equal(dirty_recorder_rounds(recorder), round);
        add_round(recorder, round, 64u << round);
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
        assert_int_equal(bitmap->gpa, layout[bitmap->region].gpa);
        assert_int_equal(bitmap->npages, layout[bitmap->region].npages);
        for (uint64_t page = 0; page < bitmap_words(bitmap->npages) * 64; page++) {
            bool dirty = page < bitmap->npages && is_dirty(bitmap->round, bitmap->region, page);

            assert_int_equal(bitmap_test(bitmap->words, page), dirty);
            dirty_pages += dirty;
        }
        assert_int_equal(bitmap->dirty_pages, dirty_pages);
    }
}

static int load(const struct folder *folder, struct error *err)
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

static void there_and_back(void **state)
{
    const struct folder *folder = *state;
    struct error err = {""};
    struct stat info;

    record(folder);
    if (load(folder, &err))
        fail_msg("%s", err.text);
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(stat(folder->file, &info), 0);
    assert_true(info.st_size < MAX_BYTES);
    /* Again, over what is there. */
    record(folder);
    if (load(folder, &err))
        fail_msg("%s", err.text);
}

static size_t read_file(const struct folder *folder, uint8_t *data)
{
    int fd = open(folder->file, O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, data, MAX_BYTES);
    assert_true(n > 0 && n < MAX_BYTES);
    close(fd);
    return (size_t)n;
}

static void write_file(const struct folder *folder, const void *data, size_t bytes)
{
    int fd = open(folder->file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

static void expect_refused(const struct folder *folder, const char *what)
{
    struct error err = {""};

    if (load(folder, &err) != -EPROTO || strncmp(err.text, folder->file, strlen(folder->file)) ||
        !strstr(err.text, what))
        fail_msg("'%s' does not say '%s'", err.text, what);
}

static void refuses_every_truncation(void **state)
{
    const struct folder *folder = *state;
    uint8_t data[MAX_BYTES] = {0};
    size_t bytes;

    record(folder);
    bytes = read_file(folder, data);
    for (size_t cut = 0; cut < bytes; cut++) {
        write_file(folder, data, cut);
        expect_refused(folder, cut < 16 ? "does not begin as one" : "cut off");
    }
    write_file(folder, data, bytes + 1);
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

    record(folder);
    bytes = read_file(folder, data);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        struct error err = {""};

        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(folder, data, bytes);
        if (load(folder, &err) == 0)
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

    record(folder);
    bytes = read_file(folder, data);
    data[8] = 2;
    write_file(folder, data, bytes);
    expect_refused(folder, "version 2, this pageferry reads 1");
    data[8] = 1;
    data[13] = 0x40;
    write_file(folder, data, bytes);
    expect_refused(folder, "pages of 16384 bytes");
    data[13] = 0x10;
    data[0] = 'p';
    write_file(folder, data, bytes);
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

/* A file of `nwords` words of contents. */
static void forge(const struct folder *folder, const uint64_t *words, size_t nwords)
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
    write_file(folder, file, sizeof(header) + bytes);
    ZSTD_freeCCtx(zstd);
    free(file);
    free(little);
}

static void refuses_forgeries(void **state)
{
    const struct folder *folder = *state;

    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        const struct forgery *f = &forgeries[i];
        struct dirty_recording *recording;
        struct error err = {""};

        forge(folder, f->words, f->nwords);
        if (dirty_recording_load(folder->file, &recording, &err) != -f->code ||
            !strstr(err.text, f->said))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.text, f->said);
        if (!f->code)
            assert_int_equal(recording->bitmap[0].words[0], 5);
        dirty_recording_free(recording);
    }
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
    forge(folder, words, nwords);
    free(words);
    assert_int_equal(stat(folder->file, &info), 0);
    assert_int_equal(dirty_recording_load(folder->file, &recording, &err), -E2BIG);
    assert_non_null(strstr(err.text, "more than 1024 MiB of bitmaps"));
    print_message("stopped a file of %lld bytes\n", (long long)info.st_size);
}

static void leaves_nothing_behind(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recorder *recorder;
    struct error err = {""};

    record(folder);
    recorder = must_open(folder);
    add_round(recorder, 1, 64);
    assert_int_equal(dirty_recorder_end_round(recorder, &err), 0);
    assert_int_equal(count_files(folder), 2);
    dirty_recorder_discard(recorder);
    dirty_recorder_discard(NULL);
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(load(folder, &err), 0); /* what was there is as it was */

    recorder = must_open(folder);
    add_round(recorder, 1, 64);
    dirty_recorder_drop_round(recorder);
    assert_int_equal(dirty_recorder_close(recorder, &err), -ENODATA);
    assert_non_null(strstr(err.text, "no round was complete"));
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(load(folder, &err), 0);
}

/* What a dropped round added must not show in the next one. */
static void drops_a_round(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recorder *recorder = must_open(folder);
    struct error err = {""};

    for (unsigned round = 0; round < NROUNDS; round++) {
        add_round(recorder, 0, 128);
        dirty_recorder_drop_round(recorder);
        add_round(recorder, round, 128);
        assert_int_equal(dirty_recorder_end_round(recorder, &err), 0);
    }
    add_round(recorder, 3, 128);
    dirty_recorder_drop_round(recorder);
    assert_int_equal(dirty_recorder_close(recorder, &err), 0);
    assert_int_equal(load(folder, &err), 0);
}

static void refuses_bad_places(void **state)
{
    const struct folder *folder = *state;
    struct dirty_recorder *recorder;
    struct error err = {""};

    assert_int_equal(dirty_recorder_open(&recorder, folder->path, layout, NREGIONS, &err), -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(dirty_recorder_open(&recorder, "/dev/null", layout, NREGIONS, &err), -EINVAL);
    assert_int_equal(dirty_recorder_open(&recorder, "/nonexistent/x", layout, NREGIONS, &err),
                     -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
    assert_null(recorder);
}

/* A file that may not grow stands for a full disk: the first write, then the last. */
static void fails_as_a_disk_does(void **state)
{
    const struct folder *folder = *state;
    struct rlimit whole, limit;
    struct dirty_recorder *recorder;
    struct error err = {""};
    struct stat info;

    record(folder);
    assert_int_equal(stat(folder->file, &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    limit = (struct rlimit){.rlim_cur = 8, .rlim_max = whole.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(dirty_recorder_open(&recorder, folder->file, layout, NREGIONS, &err), -EFBIG);
    limit.rlim_cur = (rlim_t)info.st_size - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    recorder = must_open(folder);
    for (unsigned round = 0; round < NROUNDS; round++) {
        add_round(recorder, round, 64);
        assert_int_equal(dirty_recorder_end_round(recorder, &err), 0);
    }
    assert_int_equal(dirty_recorder_close(recorder, &err), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_non_null(strstr(err.text, folder->file));
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(load(folder, &err), 0);
}

/* The recordings that the bench is judged by are whole, small, and what they are said to be. */
static void loads_the_corpus(void **state)
{
    DIR *dir = opendir(CORPUS);
    unsigned nfiles = 0;

    (void)state;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *suffix = strrchr(entry->d_name, '.');
        struct dirty_recording *recording = NULL;
        struct error err = {""};
        struct stat info;
        char path[512];
        uint64_t first = 0, last = 0;

        if (!suffix || strcmp(suffix, DIRTY_RECORDING_SUFFIX) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", CORPUS, entry->d_name);
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size < 100 * 1024);
        if (dirty_recording_load(path, &recording, &err))
            fail_msg("%s", err.text);
        for (unsigned i = 0; i < recording->nregions; i++) {
            first += recording->bitmap[i].dirty_pages;
            last += recording->bitmap[recording->nbitmaps - 1 - i].dirty_pages;
        }
        assert_true(recording->nrounds >= 3 && last && last < first);
        dirty_recording_free(recording);
        nfiles++;
    }
    closedir(dir);
    assert_true(nfiles >= 5);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(there_and_back),          IN_FOLDER(refuses_every_truncation),
        IN_FOLDER(finds_every_flipped_bit), IN_FOLDER(refuses_other_files),
        IN_FOLDER(refuses_forgeries),       IN_FOLDER(stops_at_its_limit),
        IN_FOLDER(leaves_nothing_behind),   IN_FOLDER(drops_a_round),
        IN_FOLDER(refuses_bad_places),      IN_FOLDER(fails_as_a_disk_does),
        cmocka_unit_test(loads_the_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
