/* SPDX-License-Identifier: MIT
 *
 * Compression of the pages of one record, and back. One thread uses a packer at a time. */
#ifndef MIGRATE_PACKER_H
#define MIGRATE_PACKER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "migrate/wire.h"
#include "vmm/base/error.h"

struct packer;

/* codec: WIRE_CODEC_ZSTD or WIRE_CODEC_LZ4; level counts for zstd only. */
int packer_open(struct packer **out, enum wire_codec codec, int level, struct error *err);
/* NULL is fine. */
void packer_close(struct packer *packer);

enum wire_codec packer_codec(const struct packer *packer);

/* Copies the pages of the vectors, at most WIRE_MAX_PACKED_PAGES_BYTES together, and compresses the
 * copy: a guest that runs on cannot change what is being compressed. Returns the compressed size
 * and where it lies (until the next call), or 0 where it is not worth it. */
size_t packer_pack(struct packer *packer, const struct iovec *vectors, unsigned nvectors,
                   const void **packed);

struct unpacker;

int unpacker_open(struct unpacker **out, struct error *err);
void unpacker_close(struct unpacker *unpacker);

/* Where to put a compressed payload of `bytes`, at most WIRE_MAX_PACKED_BYTES. */
void *unpacker_input(struct unpacker *unpacker);

/* Decompresses into the vectors, which it must fill to the byte; else -EPROTO. Whatever the bytes
 * are, nothing else is written. */
int unpacker_unpack(struct unpacker *unpacker, uint32_t codec, size_t bytes,
                    const struct iovec *vectors, unsigned nvectors, struct error *err);

#endif
