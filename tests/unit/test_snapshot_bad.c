/* SPDX-License-Identifier: MIT
 *
 * Snapshot files that are cut short, damaged, or made to harm: each is refused with one line that
 * names the file and an offset, nothing is left, and nothing is taken from it for granted. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "migrate/snapshot_load.h"
#include "migrate/snapshot_read.h"
#include "migrate/snapshot_save.h"
#include "migrate/wire.h"
#include "tests/unit/fake_guest.h"
#include "vmm/base/clock.h"

#define PATH_BYTES 64

static const uint64_t sizes[FAKE_REGIONS] = {64 + 5, 520};

static void make(char *path)
{
    struct snapshot_options options = {
        .copy = {.downtime_limit_ns = CLOCK_NS_PER_SEC, .chunk_pages = 64}, .cancel_fd = -1};
    struct fake_guest guest;
    struct migrate_source source = fake_guest_source(&guest);
    struct progress progress;
    struct error err;
    int fd;

    (void)strcpy(path, "/tmp/pageferry-unit.XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    fake_guest_init(&guest, sizes, true);
    progress_init(&progress);
    assert_int_equal(snapshot_save_run(&source, path, &options, &progress, &err),
                     PRECOPY_COMPLETED);
    progress_destroy(&progress);
    fake_guest_free(&guest);
}

/* True where the guest came back; else the line is checked to be one, with an offset. */
static bool restores(const char *path, struct error *err)
{
    struct snapshot_load_options options = {.cancel_fd = -1};
    struct fake_guest copy;
    struct migrate_sink sink = fake_guest_sink(&copy);
    struct progress progress;
    enum receive_outcome outcome;

    fake_guest_init(&copy, sizes, false);
    progress_init(&progress);
    err->text[0] = '\0';
    outcome = snapshot_load_run(&sink, path, &options, &progress, err);
    if (outcome != RECEIVE_RUNNING) {
        assert_int_equal(outcome, RECEIVE_DISCARDED);
        assert_false(copy.ran);
        assert_int_equal(copy.created, copy.discarded);
        assert_true(err->text[0] && !strchr(err->text, '\n'));
    }
    progress_destroy(&progress);
    fake_guest_free(&copy);
    return outcome == RECEIVE_RUNNING;
}

static uint8_t peek(int fd, uint64_t offset)
{
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    return byte;
}

static void poke(int fd, uint64_t offset, uint8_t byte)
{
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
}

static void read_places(const char *path, struct snapshot_header *header)
{
    struct snapshot_reader reader;
    struct error err;

    assert_int_equal(snapshot_reader_open(&reader, path, &err), 0);
    *header = reader.header;
    snapshot_reader_close(&reader);
}

/* Is this byte one of a page that the snapshot holds? Pages 0, 2, 4 … hold something, and the last
 * one, which saving wrote. */
static bool in_data_page(const struct snapshot_header *header, uint64_t offset)
{
    for (unsigned i = 0; i < header->nregions; i++) {
        uint64_t page = (offset - header->region[i].offset) / MIGRATE_PAGE_BYTES;

        if (offset >= header->region[i].offset && page < header->region[i].npages)
            return page % 2 == 0 || (i == 1 && page == header->region[i].npages - 1);
    }
    return false;
}

/* One bit anywhere that counts: found, whatever it is. */
static void test_every_flipped_bit_is_found(void **state)
{
    struct snapshot_header header;
    char path[PATH_BYTES];
    struct error err;
    unsigned seed = 1;
    int fd;

    (void)state;
    make(path);
    read_places(path, &header);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(restores(path, &err));
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t area[4] = {SNAPSHOT_HEADER_BYTES, header.map_offset + snapshot_map_bytes(&header),
                            header.file_bytes, header.map_offset};
        uint64_t begin[4] = {0, header.map_offset, header.records_offset, SNAPSHOT_HEADER_BYTES};
        unsigned which = i % 4;
        uint64_t at = begin[which] + ((uint64_t)rand_r(&seed) % (area[which] - begin[which]));
        uint8_t was = peek(fd, at);

        poke(fd, at, (uint8_t)(was ^ (1u << (rand_r(&seed) % 8))));
        assert_int_equal(restores(path, &err), which == 3 && !in_data_page(&header, at));
        if (err.text[0]) {
            assert_non_null(strstr(err.text, path));
            assert_true(strstr(err.text, "at byte ") || strstr(err.text, "no snapshot") ||
                        strstr(err.text, "version"));
        }
        poke(fd, at, was);
    }
    assert_true(restores(path, &err));
    (void)close(fd);
    (void)unlink(path);
}

static void test_cut_anywhere(void **state)
{
    struct snapshot_header header;
    char path[PATH_BYTES];
    struct error err;

    (void)state;
    make(path);
    read_places(path, &header);
    for (uint64_t length = header.file_bytes; length-- > 0;) {
        if (length % 4096 > 2 && length < header.records_offset && length > 100)
            length = length / 4096 * 4096 + 2;
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_false(restores(path, &err));
        assert_non_null(strstr(err.text, "it ends at byte "));
    }
    (void)unlink(path);
}

static void test_too_long(void **state)
{
    struct snapshot_header header;
    char path[PATH_BYTES];
    struct error err;

    (void)state;
    make(path);
    read_places(path, &header);
    assert_int_equal(truncate(path, (off_t)header.file_bytes + 1), 0);
    assert_false(restores(path, &err));
    assert_non_null(strstr(err.text, "but a whole one has"));
    (void)unlink(path);
}

/* As whoever wants to harm: with every checksum right. */
static void test_lying_headers(void **state)
{
    static const uint64_t values[] = {0,
                                      1,
                                      4095,
                                      4096,
                                      8192,
                                      1ull << 32,
                                      (1ull << 32) + 1,
                                      1ull << 52,
                                      (1ull << 52) - 1,
                                      INT64_MAX,
                                      INT64_MAX - 4095,
                                      UINT64_MAX,
                                      UINT64_MAX - 4095};
    uint8_t bytes[SNAPSHOT_HEADER_BYTES], changed[SNAPSHOT_HEADER_BYTES];
    char path[PATH_BYTES];
    struct error err;
    int fd;

    (void)state;
    make(path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    for (size_t at = 8; at < 96 + 2 * 32; at += 4) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            memcpy(changed, bytes, sizeof(bytes));
            wire_put_u64(changed + at, values[i]);
            wire_put_u64(changed + sizeof(bytes) - 8, wire_hash(changed, sizeof(bytes) - 8));
            assert_int_equal(pwrite(fd, changed, sizeof(bytes), 0), sizeof(bytes));
            /* What is not used may be anything, and the flag RUN is a choice. */
            if (restores(path, &err))
                assert_true(memcmp(changed + 16, bytes + 16, 56) == 0 &&
                            (at == 12 || memcmp(changed + 96, bytes + 96, 24) == 0));
        }
    }
    (void)close(fd);
    (void)unlink(path);
}

static void test_lying_map(void **state)
{
    uint8_t entry[SNAPSHOT_ENTRY_BYTES];
    struct snapshot_entry out;
    struct error err;

    (void)state;
    memset(entry, 0, sizeof(entry));
    entry[8] = 0x20; /* page 69 of 69 */
    assert_int_equal(snapshot_get_entry(entry, 69, &out, &err), -EPROTO);
    assert_int_equal(snapshot_get_entry(entry, 70, &out, &err), 0);
    entry[64 + 8] = 0x20;
    assert_int_equal(snapshot_get_entry(entry, 70, &out, &err), -EPROTO);
    assert_non_null(strstr(err.text, "both"));
}

static void test_other_files(void **state)
{
    struct error err;

    (void)state;
    assert_false(restores("/dev/null", &err));
    assert_false(restores("/tmp", &err));
    assert_false(restores("/proc/self/cmdline", &err));
    assert_false(restores("/nowhere", &err));
    assert_non_null(strstr(err.text, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_lying_headers),
        cmocka_unit_test(test_lying_map),
        cmocka_unit_test(test_other_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
