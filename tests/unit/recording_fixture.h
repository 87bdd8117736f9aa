/* SPDX-License-Identifier: MIT
 *
 * For tests of recorded dirty bitmaps: a folder of its own for each, a recording whose every bit is
 * known, and files with any contents. */
#ifndef TESTS_UNIT_RECORDING_FIXTURE_H
#define TESTS_UNIT_RECORDING_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/dirty_recording.h"

#define NREGIONS   3
#define NROUNDS    5
#define MAX_BYTES  4096 /* no test's file is larger */
#define ODD_PAGES  133
#define LAST_PAGES 4096

struct folder {
    char path[64];
    char file[96]; /* in it */
};

/* cmocka's set-up and tear-down of a folder; leaving it expects no file but `file`. */
int recording_fixture_enter(void **state);
int recording_fixture_leave(void **state);
unsigned recording_fixture_count_files(const struct folder *folder);

/* One page; not a multiple of 64; a frame buffer's. */
extern const struct recorded_region recording_fixture_layout[NREGIONS];

/* A recorder to `file`, the pages of a round in chunks, all of the known recording. */
struct dirty_recorder *recording_fixture_must_open(const struct folder *folder);
void recording_fixture_add_round(struct dirty_recorder *recorder, unsigned round, uint64_t chunk);
void recording_fixture_record(const struct folder *folder);

/* Loads `file`; fails the test where it is taken for sound and is not the known recording. */
int recording_fixture_load(const struct folder *folder, struct error *err);

/* Reads it (into MAX_BYTES) and writes it. */
size_t recording_fixture_read_file(const struct folder *folder, uint8_t *data);
void recording_fixture_write_file(const struct folder *folder, const void *data, size_t bytes);

/* Writes a file with these contents, as 64-bit words, properly sealed. */
void recording_fixture_forge(const struct folder *folder, const uint64_t *words, size_t nwords);

#endif
