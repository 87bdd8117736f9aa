/* SPDX-License-Identifier: MIT
 *
 * The bytes of a recording as they come out of its file: opened, uncompressed, and counted.
 * Internal to dirty_recording*.c. */
#ifndef TOOLS_DIRTY_RECORDING_INPUT_H
#define TOOLS_DIRTY_RECORDING_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "vmm/base/error.h"

struct recording_input {
    const char *path; /* borrowed */
    int fd;
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer raw; /* over `buffer` */
    uint8_t *buffer;
    bool frame_over;
    uint64_t at; /* uncompressed bytes taken so far */
    struct error *err;
};

/* Opens the file and checks what stands before its zstd frame. path and err are borrowed until
 * close. Close it in any case. */
int recording_input_open(struct recording_input *in, const char *path, struct error *err);
void recording_input_close(struct recording_input *in);

/* Takes exactly `bytes` of the contents. */
int recording_take(struct recording_input *in, void *to, size_t bytes);

/* 0 where the contents end here, their checksum holds, and nothing follows them. */
int recording_take_end(struct recording_input *in);

/* -EPROTO with the path and what is wrong. */
__attribute__((format(printf, 2, 3))) int recording_bad(const struct recording_input *in,
                                                        const char *format, ...);

#endif
