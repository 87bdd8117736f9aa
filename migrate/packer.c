/* SPDX-License-Identifier: MIT */
#include "migrate/packer.h"

#include <errno.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* What does not shrink by a sixteenth is sent as it is: its decompression would cost more. */
#define WORTH_IT(packed, raw) ((packed) < (raw) - (raw) / 16)

struct packer {
    enum wire_codec codec;
    int level;
    ZSTD_CCtx *zstd;
    uint8_t *raw, *packed;
};

int packer_open(struct packer **out, enum wire_codec codec, int level, struct error *err)
{
    struct packer *packer = calloc(1, sizeof(*packer));

    if (!packer)
        return error_set(err, ENOMEM, "no memory to compress pages");
    packer->codec = codec;
    packer->level = level;
    packer->raw = malloc(WIRE_MAX_PACKED_PAGES_BYTES);
    packer->packed = malloc(WIRE_MAX_PACKED_PAGES_BYTES);
    packer->zstd = codec == WIRE_CODEC_ZSTD ? ZSTD_createCCtx() : NULL;
    if (!packer->raw || !packer->packed || (codec == WIRE_CODEC_ZSTD && !packer->zstd)) {
        packer_close(packer);
        return error_set(err, ENOMEM, "no memory to compress pages");
    }
    *out = packer;
    return 0;
}

void packer_close(struct packer *packer)
{
    if (!packer)
        return;
    (void)ZSTD_freeCCtx(packer->zstd);
    free(packer->raw);
    free(packer->packed);
    free(packer);
}

enum wire_codec packer_codec(const struct packer *packer)
{
    return packer->codec;
}

size_t packer_pack(struct packer *packer, const struct iovec *vectors, unsigned nvectors,
                   const void **packed)
{
    size_t raw_bytes = 0;
    size_t packed_bytes;

    for (unsigned i = 0; i < nvectors; i++) {
        if (vectors[i].iov_len > WIRE_MAX_PACKED_PAGES_BYTES - raw_bytes)
            return 0;
        memcpy(packer->raw + raw_bytes, vectors[i].iov_base, vectors[i].iov_len);
        raw_bytes += vectors[i].iov_len;
    }
    if (!raw_bytes)
        return 0;
    /* The output has room for no more than the input: what does not fit is not worth it. */
    if (packer->codec == WIRE_CODEC_ZSTD) {
        packed_bytes = ZSTD_compressCCtx(packer->zstd, packer->packed, raw_bytes, packer->raw,
                                         raw_bytes, packer->level);
        if (ZSTD_isError(packed_bytes))
            return 0;
    } else {
        int length = LZ4_compress_default((const char *)packer->raw, (char *)packer->packed,
                                          (int)raw_bytes, (int)raw_bytes);

        packed_bytes = length > 0 ? (size_t)length : raw_bytes;
    }
    *packed = packer->packed;
    return WORTH_IT(packed_bytes, raw_bytes) ? packed_bytes : 0;
}

struct unpacker {
    ZSTD_DCtx *zstd;
    uint8_t *packed, *raw;
};

int unpacker_open(struct unpacker **out, struct error *err)
{
    struct unpacker *unpacker = calloc(1, sizeof(*unpacker));

    if (!unpacker)
        return error_set(err, ENOMEM, "no memory to decompress pages");
    unpacker->zstd = ZSTD_createDCtx();
    unpacker->packed = malloc(WIRE_MAX_PACKED_BYTES);
    unpacker->raw = malloc(WIRE_MAX_PACKED_PAGES_BYTES);
    if (!unpacker->zstd || !unpacker->packed || !unpacker->raw) {
        unpacker_close(unpacker);
        return error_set(err, ENOMEM, "no memory to decompress pages");
    }
    *out = unpacker;
    return 0;
}

void unpacker_close(struct unpacker *unpacker)
{
    if (!unpacker)
        return;
    (void)ZSTD_freeDCtx(unpacker->zstd);
    free(unpacker->packed);
    free(unpacker->raw);
    free(unpacker);
}

void *unpacker_input(struct unpacker *unpacker)
{
    return unpacker->packed;
}

/* Into raw, which has room for raw_bytes; false where it is not exactly that. */
static bool decompress(struct unpacker *unpacker, uint32_t codec, size_t bytes, size_t raw_bytes)
{
    if (codec == WIRE_CODEC_ZSTD)
        return ZSTD_decompressDCtx(unpacker->zstd, unpacker->raw, raw_bytes, unpacker->packed,
                                   bytes) == raw_bytes;
    return LZ4_decompress_safe((const char *)unpacker->packed, (char *)unpacker->raw, (int)bytes,
                               (int)raw_bytes) == (int)raw_bytes;
}

int unpacker_unpack(struct unpacker *unpacker, uint32_t codec, size_t bytes,
                    const struct iovec *vectors, unsigned nvectors, struct error *err)
{
    size_t raw_bytes = 0, at = 0;

    for (unsigned i = 0; i < nvectors; i++)
        raw_bytes += vectors[i].iov_len;
    if (bytes > WIRE_MAX_PACKED_BYTES || raw_bytes > WIRE_MAX_PACKED_PAGES_BYTES ||
        !decompress(unpacker, codec, bytes, raw_bytes))
        return error_set(err, EPROTO, "PAGES whose payload does not decompress to its pages");
    for (unsigned i = 0; i < nvectors; i++) {
        memcpy(vectors[i].iov_base, unpacker->raw + at, vectors[i].iov_len);
        at += vectors[i].iov_len;
    }
    return 0;
}
