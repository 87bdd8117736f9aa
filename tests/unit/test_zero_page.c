/* SPDX-License-Identifier: MIT
 *
 * Every way to look at a page sees every single bit of it, and nothing beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/base/zero_page.h"

static void test_every_bit(void **state)
{
    uint8_t *memory = aligned_alloc(ZERO_PAGE_BYTES, (size_t)3 * ZERO_PAGE_BYTES);
    uint8_t *page = memory + ZERO_PAGE_BYTES;
    const struct zero_page_path *path;
    unsigned checked = 0;

    (void)state;
    assert_non_null(memory);
    memset(memory, 0xff, (size_t)3 * ZERO_PAGE_BYTES);
    memset(page, 0, ZERO_PAGE_BYTES);
    for (unsigned i = 0; (path = zero_page_path_at(i)); i++) {
        if (!path->supported())
            continue;
        checked++;
        assert_true(path->check(page));
        for (size_t bit = 0; bit < (size_t)ZERO_PAGE_BYTES * 8; bit++) {
            page[bit / 8] = (uint8_t)(1u << (bit % 8));
            if (path->check(page))
                fail_msg("%s does not see bit %zu", path->name, bit);
            page[bit / 8] = 0;
        }
    }
    assert_true(checked > 0);
    assert_non_null(zero_page_best());
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_bit)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
