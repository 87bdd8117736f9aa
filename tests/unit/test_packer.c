/* SPDX-License-Identifier: MIT
 *
 * Pages compressed and back; and what a hostile peer may send as compressed pages. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/packer.h"

#define BYTES WIRE_MAX_PACKED_PAGES_BYTES

static const enum wire_codec codecs[] = {WIRE_CODEC_ZSTD, WIRE_CODEC_LZ4};

static uint8_t *allocate(size_t bytes)
{
    uint8_t *memory = calloc(1, bytes);

    assert_non_null(memory);
    return memory;
}

static void test_there_and_back(void **state)
{
    uint8_t *pages = allocate(BYTES), *back = allocate(BYTES);

    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        pages[i] = (uint8_t)(i / 100);
    for (unsigned c = 0; c < 2; c++) {
        struct iovec from[2] = {{pages, 4096}, {pages + 4096, BYTES - 4096}};
        struct iovec to[3] = {{back, 8192}, {back + 8192, 4096}, {back + 12288, BYTES - 12288}};
        struct packer *packer;
        struct unpacker *unpacker;
        const void *packed;
        size_t bytes;

        assert_int_equal(packer_open(&packer, codecs[c], 1, NULL), 0);
        assert_int_equal(unpacker_open(&unpacker, NULL), 0);
        bytes = packer_pack(packer, from, 2, &packed);
        assert_true(bytes > 0 && bytes < BYTES / 4);
        memcpy(unpacker_input(unpacker), packed, bytes);
        memset(back, 0, BYTES);
        assert_int_equal(unpacker_unpack(unpacker, codecs[c], bytes, to, 3, NULL), 0);
        assert_memory_equal(pages, back, BYTES);
        unpacker_close(unpacker);
        packer_close(packer);
    }
    free(pages);
    free(back);
}

static void test_noise_is_not_worth_it(void **state)
{
    uint8_t *pages = allocate(BYTES + 1);
    struct iovec vector = {pages, BYTES};
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (size_t i = 0; i < BYTES; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        pages[i] = (uint8_t)seed;
    }
    for (unsigned c = 0; c < 2; c++) {
        struct packer *packer;
        const void *packed;

        assert_int_equal(packer_open(&packer, codecs[c], 1, NULL), 0);
        assert_int_equal(packer_pack(packer, &vector, 1, &packed), 0);
        vector.iov_len = BYTES + 1; /* more than a record may hold */
        assert_int_equal(packer_pack(packer, &vector, 1, &packed), 0);
        vector.iov_len = BYTES;
        packer_close(packer);
    }
    free(pages);
}

/* Whatever the bytes: -EPROTO, and nothing is written. */
static void test_hostile_payloads(void **state)
{
    uint8_t *pages = allocate(BYTES), *back = allocate(BYTES);
    struct iovec from = {pages, BYTES}, to = {back, BYTES};

    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct packer *packer;
        struct unpacker *unpacker;
        const void *packed;
        size_t bytes;

        memset(pages, 7, BYTES);
        assert_int_equal(packer_open(&packer, codecs[c], 1, NULL), 0);
        assert_int_equal(unpacker_open(&unpacker, NULL), 0);
        bytes = packer_pack(packer, &from, 1, &packed);
        assert_true(bytes > 0);
        /* Shorter and longer than its pages, cut short, and garbage. */
        memcpy(unpacker_input(unpacker), packed, bytes);
        to.iov_len = BYTES - 4096;
        assert_int_equal(unpacker_unpack(unpacker, codecs[c], bytes, &to, 1, NULL), -EPROTO);
        to.iov_len = BYTES;
        assert_int_equal(unpacker_unpack(unpacker, codecs[c], bytes - 1, &to, 1, NULL), -EPROTO);
        from.iov_len = BYTES - 4096;
        bytes = packer_pack(packer, &from, 1, &packed);
        memcpy(unpacker_input(unpacker), packed, bytes);
        assert_int_equal(unpacker_unpack(unpacker, codecs[c], bytes, &to, 1, NULL), -EPROTO);
        from.iov_len = BYTES;
        memset(unpacker_input(unpacker), 0xff, WIRE_MAX_PACKED_BYTES);
        assert_int_equal(unpacker_unpack(unpacker, codecs[c], WIRE_MAX_PACKED_BYTES, &to, 1, NULL),
                         -EPROTO);
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(back[i], 0);
        unpacker_close(unpacker);
        packer_close(packer);
    }
    free(pages);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_noise_is_not_worth_it),
        cmocka_unit_test(test_hostile_payloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
