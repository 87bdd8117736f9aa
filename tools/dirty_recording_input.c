/* SPDX-License-Identifier: MIT
 *
 * From a recording's file to its contents. */
#include "tools/dirty_recording_input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/dirty_recording_format.h"

#define INPUT_BYTES (64u * 1024u)

int recording_bad(const struct recording_input *in, const char *format, ...)
{
    struct error what;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(what.text, sizeof(what.text), format, arguments);
    va_end(arguments);
    return error_set(in->err, EPROTO, "%.250s: not a sound recording: %s", in->path, what.text);
}

/* Reads more of the file into the empty buffer; *got 0 is its end. */
static int refill(struct recording_input *in, size_t *got)
{
    ssize_t n;

    do {
        n = read(in->fd, in->buffer, INPUT_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        int code = errno;

        return error_set(in->err, code, "%.250s: %s", in->path, strerror(code));
    }
    in->raw = (ZSTD_inBuffer){.src = in->buffer, .size = (size_t)n, .pos = 0};
    *got = (size_t)n;
    return 0;
}

int recording_take(struct recording_input *in, void *to, size_t bytes)
{
    ZSTD_outBuffer output = {.dst = to, .size = bytes, .pos = 0};

    while (output.pos < bytes) {
        size_t got = 1, result;

        if (in->frame_over)
            return recording_bad(in, "it ends after %" PRIu64 " bytes of contents",
                                 in->at + output.pos);
        if (in->raw.pos == in->raw.size) {
            int rc = refill(in, &got);

            if (rc)
                return rc;
        }
        result = ZSTD_decompressStream(in->zstd, &output, &in->raw);
        if (ZSTD_isError(result))
            return recording_bad(in, "%s after %" PRIu64 " bytes of contents",
                                 ZSTD_getErrorName(result), in->at + output.pos);
        in->frame_over = result == 0;
        /* At the end of the file zstd may still hold output, but no more than it now gave. */
        if (!got && !in->frame_over && output.pos < bytes)
            return recording_bad(in, "cut off after %" PRIu64 " bytes of contents",
                                 in->at + output.pos);
    }
    in->at += bytes;
    return 0;
}

int recording_take_end(struct recording_input *in)
{
    size_t got = 1;
    int rc;

    while (!in->frame_over) {
        uint8_t more;
        ZSTD_outBuffer output = {.dst = &more, .size = 1, .pos = 0};
        size_t result;

        if (in->raw.pos == in->raw.size) {
            rc = refill(in, &got);
            if (rc)
                return rc;
            if (!got)
                return recording_bad(in, "cut off before its checksum");
        }
        result = ZSTD_decompressStream(in->zstd, &output, &in->raw);
        if (ZSTD_isError(result))
            return recording_bad(in, "%s", ZSTD_getErrorName(result));
        if (output.pos)
            return recording_bad(in, "contents behind their end");
        in->frame_over = result == 0;
    }
    if (in->raw.pos == in->raw.size) {
        rc = refill(in, &got);
        if (rc)
            return rc;
    }
    return in->raw.pos < in->raw.size ? recording_bad(in, "bytes behind its end") : 0;
}

static int open_file(struct recording_input *in)
{
    struct stat info;
    int code = 0;

    in->fd = open(in->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO must not keep us */
    if (in->fd < 0 || fstat(in->fd, &info))
        code = errno;
    else if (S_ISDIR(info.st_mode))
        code = EISDIR;
    else if (!S_ISREG(info.st_mode))
        return recording_bad(in, "a special file");
    return code ? error_set(in->err, code, "%.250s: %s", in->path, strerror(code)) : 0;
}

/* RFC 8878 3.1.1: the magic number, then a descriptor whose bit 2 says that a checksum ends the
 * frame. The library takes frames without one, and older formats too. */
static int check_frame(const struct recording_input *in)
{
    static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    const uint8_t *frame = (const uint8_t *)in->buffer + in->raw.pos;

    if (in->raw.size - in->raw.pos <= sizeof(magic))
        return recording_bad(in, "cut off before its contents");
    if (memcmp(frame, magic, sizeof(magic)) != 0)
        return recording_bad(in, "no zstd frame behind its header");
    return frame[sizeof(magic)] & 4 ? 0 : recording_bad(in, "its zstd frame has no checksum");
}

static int take_file_header(struct recording_input *in)
{
    struct recording_file_header header;
    size_t bytes = 0;
    int rc = refill(in, &bytes);

    if (rc)
        return rc;
    if (bytes < sizeof(header) || memcmp(in->buffer, RECORDING_MAGIC, sizeof(header.magic)) != 0)
        return recording_bad(in, "it does not begin as one");
    memcpy(&header, in->buffer, sizeof(header));
    if (le32toh(header.version) != RECORDING_VERSION)
        return recording_bad(in, "version %" PRIu32 ", this pageferry reads %u",
                             le32toh(header.version), RECORDING_VERSION);
    if (le32toh(header.page_bytes) != RECORDING_PAGE_BYTES)
        return recording_bad(in, "pages of %" PRIu32 " bytes, not %u", le32toh(header.page_bytes),
                             RECORDING_PAGE_BYTES);
    in->raw.pos = sizeof(header);
    return check_frame(in);
}

int recording_input_open(struct recording_input *in, const char *path, struct error *err)
{
    int rc;

    *in = (struct recording_input){.path = path, .fd = -1, .err = err};
    rc = open_file(in);
    if (rc)
        return rc;
    in->buffer = malloc(INPUT_BYTES);
    in->zstd = ZSTD_createDCtx();
    if (!in->buffer || !in->zstd ||
        ZSTD_isError(ZSTD_DCtx_setParameter(in->zstd, ZSTD_d_windowLogMax, RECORDING_WINDOW_LOG)))
        return error_set(err, ENOMEM, "no memory for reading a recording");
    return take_file_header(in);
}

void recording_input_close(struct recording_input *in)
{
    if (in->fd >= 0)
        (void)close(in->fd);
    (void)ZSTD_freeDCtx(in->zstd);
    free(in->buffer);
}
