/* SPDX-License-Identifier: MIT
 *
 * Guest RAM without a VM: ranges, the accessor's edges, marks, and what counts as populated. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/base/bitmap.h"
#include "vmm/memory.h"

#define PAGE MEMORY_PAGE_BYTES

/* Low RAM up to just below a gap, high RAM behind it, and a region that touches the latter. */
static const struct memory_region three[] = {
    {.gpa = 0, .npages = 100},
    {.gpa = 0x100000000ull, .npages = 65},
    {.gpa = 0x100000000ull + 65 * PAGE, .npages = 3},
};

static void create(struct memory *memory, enum memory_backing backing)
{
    struct error err = {""};

    if (memory_create(memory, three, 3, backing, &err))
        fail_msg("%s", err.text);
}

static void names_backings(void **state)
{
    static const char *const names[] = {"anon", "thp", "memfd", "hugetlb"};
    struct error err = {""};
    enum memory_backing backing;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(memory_backing_parse(names[i], &backing, &err), 0);
        assert_string_equal(memory_backing_name(backing), names[i]);
    }
    assert_int_equal(memory_backing_parse("ramfs", &backing, &err), -EINVAL);
    assert_non_null(strstr(err.text, "hugetlb"));
}

static void refuses_bad_ranges(void **state)
{
    static const struct memory_region cases[][2] = {
        {{.gpa = 1, .npages = 1}, {.gpa = 1ull << 30, .npages = 1}},
        {{.gpa = 0, .npages = 0}, {.gpa = 1ull << 30, .npages = 1}},
        {{.gpa = 0, .npages = 10}, {.gpa = 9 * PAGE, .npages = 1}},
        {{.gpa = 9 * PAGE, .npages = 1}, {.gpa = 0, .npages = 10}},
        {{.gpa = 0, .npages = 10}, {.gpa = 0, .npages = 10}},
        {{.gpa = UINT64_MAX - PAGE + 1, .npages = 2}, {.gpa = 0, .npages = 1}},
        {{.gpa = 0, .npages = UINT64_MAX / PAGE + 1}, {.gpa = 1ull << 30, .npages = 1}},
        {{.gpa = 0, .npages = UINT64_MAX}, {.gpa = 1ull << 30, .npages = 1}},
    };
    struct memory memory;
    struct error err = {""};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        err.text[0] = '\0';
        assert_int_equal(memory_create(&memory, cases[i], 2, MEMORY_ANON, &err), -EINVAL);
        assert_true(err.text[0] != '\0');
        assert_int_equal(memory.nregions, 0);
    }
    assert_int_equal(memory_create(&memory, three, 0, MEMORY_ANON, &err), -EINVAL);
    assert_int_equal(memory_create(&memory, three, MEMORY_MAX_REGIONS + 1, MEMORY_ANON, &err),
                     -EINVAL);
}

static void finds_addresses(void **state)
{
    struct memory memory;
    uint64_t low_end = 100 * PAGE;
    gpa_t high = three[1].gpa;

    (void)state;
    create(&memory, MEMORY_ANON);
    assert_ptr_equal(memory_at(&memory, 0, low_end), memory.region[0].hva);
    assert_ptr_equal(memory_at(&memory, low_end - 1, 1), memory.region[0].hva + low_end - 1);
    assert_null(memory_at(&memory, low_end - 1, 2));
    assert_null(memory_at(&memory, low_end, 1));
    assert_null(memory_at(&memory, low_end, 0));
    assert_null(memory_at(&memory, 0, low_end + 1));
    assert_null(memory_at(&memory, 0, UINT64_MAX));
    assert_null(memory_at(&memory, 16, UINT64_MAX - 15));
    assert_null(memory_at(&memory, 16, UINT64_MAX - 14));
    assert_null(memory_at(&memory, UINT64_MAX, 1));
    assert_null(memory_at(&memory, UINT64_MAX, UINT64_MAX));
    assert_null(memory_at(&memory, high - 1, 1));
    assert_null(memory_at(&memory, high - 1, 2));
    assert_ptr_equal(memory_at(&memory, high, 65 * PAGE), memory.region[1].hva);
    /* One host address only within one region. */
    assert_null(memory_at(&memory, high, 65 * PAGE + 1));
    assert_non_null(memory_at(&memory, high + 68 * PAGE - 1, 1));
    assert_null(memory_at(&memory, high + 68 * PAGE, 1));
    memory_destroy(&memory);
    memory_destroy(&memory);
}

static uint64_t marks(const struct memory *memory, unsigned region)
{
    return bitmap_count(memory->region[region].vmm_dirty, memory->region[region].npages);
}

static void copies_and_marks(void **state)
{
    static const char text[] = "ferryman";
    char back[sizeof(text)] = "";
    struct memory memory;
    gpa_t seam = three[2].gpa - 4;

    (void)state;
    create(&memory, MEMORY_MEMFD);
    /* Straddles two pages, then two regions. */
    assert_int_equal(memory_write(&memory, 2 * PAGE - 3, text, sizeof(text)), 0);
    assert_int_equal(memory_read(&memory, 2 * PAGE - 3, back, sizeof(back)), 0);
    assert_string_equal(back, text);
    assert_int_equal(memory.region[0].vmm_dirty[0], 3u << 1);
    assert_int_equal(memory_write(&memory, seam, text, sizeof(text)), 0);
    assert_int_equal(memory_read(&memory, seam, back, sizeof(back)), 0);
    assert_string_equal(back, text);
    assert_int_equal(memory.region[1].vmm_dirty[1], 1);
    assert_int_equal(memory.region[2].vmm_dirty[0], 1);
    /* A page is marked once, a page's last byte does not mark the next. */
    assert_int_equal(memory_write(&memory, 6 * PAGE - 1, text, 1), 0);
    assert_int_equal(memory_write(&memory, 5 * PAGE, text, 1), 0);
    assert_int_equal(marks(&memory, 0), 3);
    /* Refused as a whole: not a byte is written, not a page marked. */
    assert_int_equal(memory_write(&memory, 100 * PAGE - 2, text, 4), -EFAULT);
    assert_int_equal(memory_write(&memory, UINT64_MAX - 1, text, 4), -EFAULT);
    assert_int_equal(memory_write(&memory, 0, text, UINT64_MAX), -EFAULT);
    assert_int_equal(memory_read(&memory, 100 * PAGE - 2, back, 4), -EFAULT);
    assert_int_equal(memory_read(&memory, 0xc0000000, back, 1), -EFAULT);
    assert_int_equal(memory.region[0].hva[100 * PAGE - 2], 0);
    assert_int_equal(marks(&memory, 0), 3);
    memory_mark_written(&memory, 0, 0);
    assert_int_equal(marks(&memory, 0), 3);
    memory_mark_written(&memory, 0, 100 * PAGE);
    assert_int_equal(marks(&memory, 0), 100);
    memory_destroy(&memory);
}

/* Writes some pages and expects exactly those, whichever part is asked for. */
static void finds_populated(void **state)
{
    enum memory_backing backing = *(enum memory_backing *)*state;
    static const uint64_t touched[] = {0, 5, 63, 64, 99};
    struct error err = {""};
    struct memory memory;
    uint64_t words[2];

    create(&memory, backing);
    for (size_t i = 0; i < sizeof(touched) / sizeof(touched[0]); i++)
        assert_int_equal(memory_write(&memory, touched[i] * PAGE + 7, "x", 1), 0);
    memset(words, 0xff, sizeof(words));
    if (memory_populated(&memory, 0, 0, 100, words, NULL, &err))
        fail_msg("%s", err.text);
    for (uint64_t page = 0; page < 100; page++) {
        bool expected = page == 0 || page == 5 || page == 63 || page == 64 || page == 99;
        /* A huge page makes its neighbours present: a superset is right there. */
        if (backing != MEMORY_THP || expected)
            assert_int_equal(bitmap_test(words, page), expected);
    }
    assert_int_equal(memory_populated(&memory, 0, 64, 36, words, NULL, &err), 0);
    assert_true(bitmap_test(words, 0));
    assert_true(bitmap_test(words, 35));
    if (backing != MEMORY_THP)
        assert_int_equal(bitmap_count(words, 36), 2);
    assert_int_equal(memory_populated(&memory, 1, 0, 65, words, NULL, &err), 0);
    assert_int_equal(bitmap_count(words, 65), 0);
    memory_destroy(&memory);
}

/* A byte anywhere makes a page data; only pages that were asked about are sorted. */
static void sorts_zeros(void **state)
{
    enum memory_backing backing = *(enum memory_backing *)*state;
    struct error err = {""};
    struct memory memory;
    uint64_t data[1] = {UINT64_MAX & ~(1ull << 5)}, zero[1] = {0};

    create(&memory, backing);
    assert_int_equal(memory_write(&memory, 64 * PAGE, "x", 1), 0);
    assert_int_equal(memory_write(&memory, 81 * PAGE - 1, "x", 1), 0);
    assert_int_equal(memory_write(&memory, 99 * PAGE + 200, "x", 1), 0);
    assert_int_equal(memory_write(&memory, 70 * PAGE, "x", 1), 0);
    assert_int_equal(memory_write(&memory, 70 * PAGE, "", 1), 0);
    if (memory_sort_zeros(&memory, 0, 64, 36, data, zero, &err))
        fail_msg("%s", err.text);
    for (uint64_t i = 0; i < 36; i++) {
        bool holds = i == 0 || i == 16 || i == 35;

        assert_int_equal(bitmap_test(data, i), holds && i != 5);
        assert_int_equal(bitmap_test(zero, i), !holds && i != 5);
    }
    memory_destroy(&memory);
}

static void populates_without_destroying(void **state)
{
    enum memory_backing backing = *(enum memory_backing *)*state;
    struct error err = {""};
    struct memory memory;
    uint64_t words[2];
    int result;

    create(&memory, backing);
    assert_int_equal(memory_write(&memory, 70 * PAGE, "keep", 5), 0);
    result = memory_populate(&memory, 0, 64, 36, &err);
    if (result == -ENOTSUP) {
        memory_destroy(&memory);
        skip();
    }
    assert_int_equal(result, 0);
    assert_int_equal(memory_populated(&memory, 0, 64, 36, words, NULL, &err), 0);
    assert_int_equal(bitmap_count(words, 36), 36);
    if (backing != MEMORY_THP) {
        assert_int_equal(memory_populated(&memory, 0, 0, 64, words, NULL, &err), 0);
        assert_int_equal(bitmap_count(words, 64), 0);
    }
    assert_string_equal((char *)memory.region[0].hva + 70 * PAGE, "keep");
    assert_int_equal(memory.region[0].hva[71 * PAGE], 0);
    assert_int_equal(memory_populate(&memory, 0, 0, 0, &err), 0);
    memory_destroy(&memory);
}

/* A piece of a walk asks the kernel only for what no piece before it has learned. */
static void finds_populated_in_pieces(void **state)
{
    struct memory_extent last = {0};
    struct error err = {""};
    struct memory memory, blind;
    uint64_t words[2];

    (void)state;
    create(&memory, MEMORY_MEMFD);
    for (uint64_t page = 10; page < 90; page++)
        assert_int_equal(memory_write(&memory, page * PAGE, "x", 1), 0);
    blind = memory; /* any look at the file fails */
    blind.region[0].fd = -1;
    assert_int_equal(memory_populated(&blind, 0, 0, 20, words, &last, &err), -EBADF);
    /* In a hole nobody asks how far the data behind it goes. */
    assert_int_equal(memory_populated(&memory, 0, 0, 10, words, &last, &err), 0);
    assert_int_equal(bitmap_count(words, 10), 0);
    assert_int_equal(last.end_page, 0);
    assert_int_equal(memory_populated(&memory, 0, 0, 20, words, &last, &err), 0);
    assert_int_equal(bitmap_count(words, 20), 10);
    if (memory_populated(&blind, 0, 20, 64, words, &last, &err))
        fail_msg("%s", err.text);
    assert_int_equal(bitmap_count(words, 64), 64);
    assert_int_equal(memory_populated(&blind, 0, 84, 16, words, &last, &err), -EBADF);
    /* Nor again where the data begins that was found before: this would be found otherwise. */
    assert_int_equal(memory_write(&memory, 90 * PAGE, "x", 1), 0);
    assert_int_equal(memory_populated(&memory, 0, 0, 20, words, &last, &err), 0);
    assert_int_equal(last.end_page, 90);
    /* What came after a look beyond the data that it found is seen by the next. */
    assert_int_equal(memory_write(&memory, 95 * PAGE, "x", 1), 0);
    assert_int_equal(memory_populated(&memory, 0, 84, 16, words, &last, &err), 0);
    assert_int_equal(bitmap_count(words, 16), 8);
    assert_true(bitmap_test(words, 6) && bitmap_test(words, 11));
    assert_false(bitmap_test(words, 7));
    /* Backwards, and in another region, nothing is known. */
    assert_int_equal(memory_populated(&memory, 0, 0, 20, words, &last, &err), 0);
    assert_int_equal(bitmap_count(words, 20), 10);
    assert_int_equal(memory_populated(&memory, 1, 0, 65, words, &last, &err), 0);
    assert_int_equal(bitmap_count(words, 65), 0);
    memory_destroy(&memory);
}

/* A large range crosses the chunks in which pagemap is read. */
static void finds_populated_far_out(void **state)
{
    static const struct memory_region large[] = {{.gpa = 0, .npages = 20000}};
    static uint64_t words[20000 / 64 + 1];
    struct error err = {""};
    struct memory memory;

    (void)state;
    assert_int_equal(memory_create(&memory, large, 1, MEMORY_ANON, &err), 0);
    for (uint64_t page = 4090; page < 20000; page += 4999)
        assert_int_equal(memory_write(&memory, page * PAGE, "x", 1), 0);
    assert_int_equal(memory_populated(&memory, 0, 0, 20000, words, NULL, &err), 0);
    assert_int_equal(bitmap_count(words, 20000), 4);
    for (uint64_t page = 4090; page < 20000; page += 4999)
        assert_true(bitmap_test(words, page));
    memory_destroy(&memory);
}

static void aligns_for_huge_pages(void **state)
{
    static const struct memory_region huge[] = {{.gpa = 0, .npages = 512},
                                                {.gpa = 5 * 4096, .npages = 1}};
    static const struct memory_region odd[] = {{.gpa = 7ull * 4096, .npages = 1024}};
    struct error err = {""};
    struct memory memory;

    (void)state;
    assert_int_equal(memory_create(&memory, huge, 1, MEMORY_THP, &err), 0);
    assert_int_equal((uintptr_t)memory.region[0].hva % (2u << 20), 0);
    memory_destroy(&memory);
    assert_int_equal(memory_create(&memory, odd, 1, MEMORY_THP, &err), 0);
    assert_int_equal((uintptr_t)memory.region[0].hva % (2u << 20), 7 * 4096);
    memory_destroy(&memory);
}

static void hugetlb_says_what_is_missing(void **state)
{
    static const struct memory_region small[] = {{.gpa = 0, .npages = 513}};
    /* More than any host of these tests has reserved: 1 TiB. */
    static const struct memory_region large[] = {{.gpa = 0, .npages = 1ull << 28}};
    struct error err = {""};
    struct memory memory;
    int result;

    (void)state;
    assert_int_equal(memory_create(&memory, small, 1, MEMORY_HUGETLB, &err), -EINVAL);
    assert_non_null(strstr(err.text, "2 MiB"));
    result = memory_create(&memory, large, 1, MEMORY_HUGETLB, &err);
    if (result == -ENOTSUP)
        skip();
    assert_int_equal(result, -ENOMEM);
    assert_non_null(strstr(err.text, "524288 huge pages"));
    assert_non_null(strstr(err.text, "sysctl vm.nr_hugepages="));
}

/* Needs two free huge pages; most hosts of this test have none. */
static void hugetlb_works(void **state)
{
    static const struct memory_region two[] = {{.gpa = 0, .npages = 1024}};
    struct error err = {""};
    struct memory memory;
    uint64_t words[16];

    (void)state;
    if (memory_create(&memory, two, 1, MEMORY_HUGETLB, &err)) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    assert_int_equal(memory_populated(&memory, 0, 0, 1024, words, NULL, &err), 0);
    assert_int_equal(bitmap_count(words, 1024), 0);
    assert_int_equal(memory_write(&memory, 600 * PAGE, "x", 1), 0);
    assert_int_equal(memory_populated(&memory, 0, 0, 1024, words, NULL, &err), 0);
    assert_int_equal(bitmap_count(words, 512), 0);
    assert_int_equal(bitmap_count(words, 1024), 512);
    memory_destroy(&memory);
}

#define WITH(test, backing) cmocka_unit_test_prestate(test, &(backing))

int main(void)
{
    static enum memory_backing anon = MEMORY_ANON;
    static enum memory_backing thp = MEMORY_THP;
    static enum memory_backing memfd = MEMORY_MEMFD;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_backings),
        cmocka_unit_test(refuses_bad_ranges),
        cmocka_unit_test(finds_addresses),
        cmocka_unit_test(copies_and_marks),
        WITH(finds_populated, anon),
        WITH(finds_populated, thp),
        WITH(finds_populated, memfd),
        WITH(sorts_zeros, anon),
        WITH(sorts_zeros, thp),
        WITH(sorts_zeros, memfd),
        WITH(populates_without_destroying, anon),
        WITH(populates_without_destroying, thp),
        WITH(populates_without_destroying, memfd),
        cmocka_unit_test(finds_populated_in_pieces),
        cmocka_unit_test(finds_populated_far_out),
        cmocka_unit_test(aligns_for_huge_pages),
        cmocka_unit_test(hugetlb_says_what_is_missing),
        cmocka_unit_test(hugetlb_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
