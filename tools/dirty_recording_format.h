/* SPDX-License-Identifier: MIT
 *
 * The file format of recorded dirty bitmaps, version 1, as docs/dirty-recording.md has it. Numbers
 * are little-endian, lengths are bytes. Internal to dirty_recording*.c.
 *
 *   file     magic (8), version (u32), page size (u32), then one zstd frame with a checksum
 *   frame    layout, one record per round and region, by round, then by region; end
 *   layout   nregions (u32), zero (u32), per region: gpa (u64), npages (u64)
 *   record   round (u32), region (u32), dirty pages (u64), the bitmap's words (u64 each)
 *   end      RECORDING_END (u32), nrounds (u32), dirty pages of all records (u64) */
#ifndef TOOLS_DIRTY_RECORDING_FORMAT_H
#define TOOLS_DIRTY_RECORDING_FORMAT_H

#include <endian.h>
#include <stdint.h>

#define RECORDING_MAGIC      "PFDIRTY\n" /* 8 bytes, without the string's end */
#define RECORDING_VERSION    1u
#define RECORDING_PAGE_BYTES 4096u
#define RECORDING_END        UINT32_MAX

/* A reader needs no larger window; the format forbids one. */
#define RECORDING_WINDOW_LOG 23

struct recording_file_header {
    uint8_t magic[8];
    uint32_t version, page_bytes;
};

struct recording_layout {
    uint32_t nregions, zero;
};

struct recording_region {
    uint64_t gpa, npages;
};

/* Of a record: round and region. Of the end: RECORDING_END and nrounds. */
struct recording_head {
    uint32_t first, second;
    uint64_t dirty_pages;
};

_Static_assert(sizeof(struct recording_file_header) == 16, "no padding");
_Static_assert(sizeof(struct recording_layout) == 8, "no padding");
_Static_assert(sizeof(struct recording_region) == 16, "no padding");
_Static_assert(sizeof(struct recording_head) == 16, "no padding");

#endif
