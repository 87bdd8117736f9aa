/* SPDX-License-Identifier: MIT
 *
 * Recording dirty bitmaps. Chunks gather in one bitmap per region; a round is compressed as a whole
 * when it ends, so that claiming a chunk costs a copy of its words and no I/O. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "tools/dirty_recording.h"
#include "tools/dirty_recording_format.h"
#include "vmm/base/bitmap.h"

#define OUTPUT_BYTES (64u * 1024u)
/* Words that are brought into the file's byte order at a time. */
#define SWAP_WORDS 512u
/* Names that are tried for the file under construction. */
#define NAME_TRIES 100

struct recorder_region {
    uint64_t gpa, npages;
    uint64_t *words; /* of the round that is under way */
};

struct dirty_recorder {
    char *path, *partial;
    int fd;
    ZSTD_CCtx *zstd;
    uint8_t *output;
    bool in_round;
    uint32_t nrounds;
    uint64_t dirty_pages;
    unsigned nregions;
    struct recorder_region region[DIRTY_RECORDING_MAX_REGIONS];
};

static int failed(const struct dirty_recorder *recorder, int code, struct error *err)
{
    return error_set(err, code, "recording to %.300s: %s", recorder->path, strerror(code));
}

static int write_all(const struct dirty_recorder *recorder, const void *data, size_t bytes,
                     struct error *err)
{
    const uint8_t *from = data;

    while (bytes) {
        ssize_t n = write(recorder->fd, from, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(recorder, errno, err);
        from += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int compress(const struct dirty_recorder *recorder, const void *data, size_t bytes,
                    ZSTD_EndDirective directive, struct error *err)
{
    ZSTD_inBuffer input = {.src = data, .size = bytes, .pos = 0};
    size_t left;

    do {
        ZSTD_outBuffer output = {.dst = recorder->output, .size = OUTPUT_BYTES, .pos = 0};
        int rc;

        left = ZSTD_compressStream2(recorder->zstd, &output, &input, directive);
        if (ZSTD_isError(left))
            return error_set(err, EIO, "recording to %.300s: %s", recorder->path,
                             ZSTD_getErrorName(left));
        rc = write_all(recorder, recorder->output, output.pos, err);
        if (rc)
            return rc;
    } while (directive == ZSTD_e_continue ? input.pos < input.size : left != 0);
    return 0;
}

static int put(const struct dirty_recorder *recorder, const void *data, size_t bytes,
               struct error *err)
{
    return compress(recorder, data, bytes, ZSTD_e_continue, err);
}

static int put_words(const struct dirty_recorder *recorder, const uint64_t *words, size_t nwords,
                     struct error *err)
{
    uint64_t little[SWAP_WORDS];
    int rc = 0;

    while (!rc && nwords) {
        size_t n = nwords < SWAP_WORDS ? nwords : SWAP_WORDS;

        for (size_t i = 0; i < n; i++)
            little[i] = htole64(words[i]);
        rc = put(recorder, little, n * sizeof(little[0]), err);
        words += n;
        nwords -= n;
    }
    return rc;
}

static int put_head(const struct dirty_recorder *recorder, uint32_t first, uint32_t second,
                    uint64_t dirty_pages, struct error *err)
{
    const struct recording_head head = {
        .first = htole32(first), .second = htole32(second), .dirty_pages = htole64(dirty_pages)};

    return put(recorder, &head, sizeof(head), err);
}

static int put_start(const struct dirty_recorder *recorder, struct error *err)
{
    struct recording_file_header header = {.version = htole32(RECORDING_VERSION),
                                           .page_bytes = htole32(RECORDING_PAGE_BYTES)};
    const struct recording_layout layout = {.nregions = htole32(recorder->nregions)};
    int rc;

    memcpy(header.magic, RECORDING_MAGIC, sizeof(header.magic));
    rc = write_all(recorder, &header, sizeof(header), err);
    if (!rc)
        rc = put(recorder, &layout, sizeof(layout), err);
    for (unsigned i = 0; !rc && i < recorder->nregions; i++) {
        const struct recording_region region = {.gpa = htole64(recorder->region[i].gpa),
                                                .npages = htole64(recorder->region[i].npages)};

        rc = put(recorder, &region, sizeof(region), err);
    }
    return rc;
}

/* A new file beside the one that it is to replace. */
static int create_partial(struct dirty_recorder *recorder, struct error *err)
{
    const size_t room = strlen(recorder->path) + 32;
    struct stat info;

    if (stat(recorder->path, &info) == 0 && !S_ISREG(info.st_mode))
        return error_set(err, EINVAL, "recording to %.300s: not a regular file", recorder->path);
    recorder->partial = malloc(room);
    if (!recorder->partial)
        return error_set(err, ENOMEM, "no memory for a recording");
    for (int i = 0; i < NAME_TRIES; i++) {
        (void)snprintf(recorder->partial, room, "%s.part%d-%d", recorder->path, (int)getpid(), i);
        recorder->fd = open(recorder->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (recorder->fd >= 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return failed(recorder, errno, err);
}

static int allocate(struct dirty_recorder *recorder, const char *path,
                    const struct recorded_region *regions, unsigned nregions, struct error *err)
{
    assert(nregions && nregions <= DIRTY_RECORDING_MAX_REGIONS);
    recorder->path = strdup(path);
    recorder->output = malloc(OUTPUT_BYTES);
    recorder->zstd = ZSTD_createCCtx();
    if (!recorder->path || !recorder->output || !recorder->zstd)
        return error_set(err, ENOMEM, "no memory for a recording");
    if (ZSTD_isError(ZSTD_CCtx_setParameter(recorder->zstd, ZSTD_c_checksumFlag, 1)))
        return error_set(err, EIO, "this zstd library makes no checksums");
    for (unsigned i = 0; i < nregions; i++) {
        struct recorder_region *region = &recorder->region[i];

        assert(regions[i].npages && regions[i].npages <= DIRTY_RECORDING_MAX_PAGES);
        *region = (struct recorder_region){
            .gpa = regions[i].gpa,
            .npages = regions[i].npages,
            .words = calloc(bitmap_words(regions[i].npages), sizeof(uint64_t))};
        recorder->nregions = i + 1;
        if (!region->words)
            return error_set(err, ENOMEM, "no memory for a recording");
    }
    return 0;
}

int dirty_recorder_open(struct dirty_recorder **out, const char *path,
                        const struct recorded_region *regions, unsigned nregions, struct error *err)
{
    struct dirty_recorder *recorder = calloc(1, sizeof(*recorder));
    int rc;

    *out = NULL;
    if (!recorder)
        return error_set(err, ENOMEM, "no memory for a recording");
    recorder->fd = -1;
    rc = allocate(recorder, path, regions, nregions, err);
    if (!rc)
        rc = create_partial(recorder, err);
    if (!rc)
        rc = put_start(recorder, err);
    if (rc)
        dirty_recorder_discard(recorder);
    else
        *out = recorder;
    return rc;
}

void dirty_recorder_add(struct dirty_recorder *recorder, unsigned region, uint64_t first_page,
                        uint64_t npages, const uint64_t *words)
{
    const struct recorder_region *r = recorder->region + region;
    size_t full = (size_t)(npages / BITMAP_WORD_BITS);
    uint64_t *to;

    assert(region < recorder->nregions && first_page % BITMAP_WORD_BITS == 0);
    assert(first_page <= r->npages && npages <= r->npages - first_page);
    assert(npages % BITMAP_WORD_BITS == 0 || first_page + npages == r->npages);
    to = r->words + first_page / BITMAP_WORD_BITS;
    recorder->in_round = true;
    for (size_t i = 0; i < full; i++)
        to[i] |= words[i];
    if (npages % BITMAP_WORD_BITS)
        to[full] |= words[full] & ((1ull << npages % BITMAP_WORD_BITS) - 1);
}

void dirty_recorder_drop_round(struct dirty_recorder *recorder)
{
    for (unsigned i = 0; i < recorder->nregions; i++)
        memset(recorder->region[i].words, 0,
               bitmap_words(recorder->region[i].npages) * sizeof(uint64_t));
    recorder->in_round = false;
}

int dirty_recorder_end_round(struct dirty_recorder *recorder, struct error *err)
{
    if (!recorder->in_round)
        return 0;
    for (unsigned i = 0; i < recorder->nregions; i++) {
        const struct recorder_region *region = &recorder->region[i];
        uint64_t dirty_pages = bitmap_count(region->words, region->npages);
        int rc = put_head(recorder, recorder->nrounds, i, dirty_pages, err);

        if (!rc)
            rc = put_words(recorder, region->words, bitmap_words(region->npages), err);
        if (rc)
            return rc;
        recorder->dirty_pages += dirty_pages;
    }
    recorder->nrounds++;
    dirty_recorder_drop_round(recorder);
    return 0;
}

uint32_t dirty_recorder_rounds(const struct dirty_recorder *recorder)
{
    return recorder->nrounds;
}

/* A name is safe once its directory is. The file is complete by then, so that a file system that
 * cannot sync directories is no failure. */
static void sync_directory(char *path)
{
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

int dirty_recorder_close(struct dirty_recorder *recorder, struct error *err)
{
    int rc = dirty_recorder_end_round(recorder, err);

    if (!rc && !recorder->nrounds)
        rc = error_set(err, ENODATA, "recording to %.300s: no round was complete", recorder->path);
    if (!rc)
        rc = put_head(recorder, RECORDING_END, recorder->nrounds, recorder->dirty_pages, err);
    if (!rc)
        rc = compress(recorder, NULL, 0, ZSTD_e_end, err);
    if (!rc && fsync(recorder->fd))
        rc = failed(recorder, errno, err);
    if (!rc && rename(recorder->partial, recorder->path))
        rc = failed(recorder, errno, err);
    if (!rc) {
        free(recorder->partial);
        recorder->partial = NULL;
        sync_directory(recorder->path);
    }
    dirty_recorder_discard(recorder);
    return rc;
}

void dirty_recorder_discard(struct dirty_recorder *recorder)
{
    if (!recorder)
        return;
    if (recorder->fd >= 0) {
        (void)close(recorder->fd);
        if (recorder->partial)
            (void)unlink(recorder->partial);
    }
    (void)ZSTD_freeCCtx(recorder->zstd);
    for (unsigned i = 0; i < recorder->nregions; i++)
        free(recorder->region[i].words);
    free(recorder->output);
    free(recorder->partial);
    free(recorder->path);
    free(recorder);
}
