/* SPDX-License-Identifier: MIT
 *
 * The dirty log's promises one by one, on every backend, with a guest that stores to known pages
 * and nowhere else: what the log holds is exactly that. */
#include <errno.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kvm/test_writer.h"
#include "vmm/base/bitmap.h"
#include "vmm/dirty_log.h"
#include "vmm/dirty_ring.h"

#define LARGE_PAGES (4096 + 37)
#define MAX_WORDS   (LARGE_PAGES / 64 + 10)

static const uint64_t odd_slots[] = {1, 63, 64, 65, LARGE_PAGES};
#define ODD_SLOTS (sizeof(odd_slots) / sizeof(odd_slots[0]))

static enum dirty_log_backend backend_of(void **state)
{
    return *(enum dirty_log_backend *)*state;
}

static uint64_t every_nth(uint64_t *pages, uint64_t total, uint64_t step, uint64_t from)
{
    uint64_t n = 0;

    for (uint64_t page = from; page < total; page += step)
        pages[n++] = page;
    return n;
}

static void everything_is_pending_first(void **state)
{
    struct test_writer w;

    test_writer_create(&w, odd_slots, ODD_SLOTS, MEMORY_ANON, backend_of(state));
    test_writer_log(&w, backend_of(state));
    assert_int_equal(test_writer_sync(&w), w.total_pages);
    assert_int_equal(test_writer_drain(&w, NULL), w.total_pages);
    assert_int_equal(test_writer_sync(&w), 0);
    assert_int_equal(test_writer_drain(&w, NULL), 0);
    test_writer_destroy(&w);
}

static void guest_stores_are_found(void **state)
{
    static const uint64_t steps[] = {1, 2, 7, 64, 65, 1000, LARGE_PAGES};
    uint64_t pages[LARGE_PAGES + 200];
    struct test_writer w;

    test_writer_create(&w, odd_slots, ODD_SLOTS, MEMORY_THP, backend_of(state));
    test_writer_log(&w, backend_of(state));
    (void)test_writer_drain(&w, NULL);
    (void)test_writer_sync(&w);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t found[MAX_WORDS] = {0};
        uint64_t npages = every_nth(pages, w.total_pages, steps[i], i % 2 ? steps[i] - 1 : 0);

        test_writer_store(&w, pages, npages);
        assert_int_equal(test_writer_sync(&w), npages);
        assert_int_equal(test_writer_drain(&w, found), npages);
        for (uint64_t n = 0; n < npages; n++)
            assert_true(bitmap_test(found, pages[n]));
    }
    test_writer_destroy(&w);
}

/* A page that is pending and written again is reported once; a store after the claim is reported
 * again. */
static void claims_are_partial(void **state)
{
    static const uint64_t one_slot[] = {256};
    uint64_t pages[256], words[4];
    struct test_writer w;

    test_writer_create(&w, one_slot, 1, MEMORY_ANON, backend_of(state));
    test_writer_log(&w, backend_of(state));
    (void)test_writer_drain(&w, NULL);
    (void)test_writer_sync(&w);
    for (int again = 0; again < 3; again++) {
        test_writer_store(&w, pages, every_nth(pages, 256, 1, 0));
        assert_int_equal(test_writer_sync(&w), 256);
    }
    test_writer_claim(&w, 0, 64, 64, words);
    assert_int_equal(words[0], UINT64_MAX);
    assert_int_equal(test_writer_sync(&w), 192);
    test_writer_claim(&w, 0, 64, 64, words);
    assert_int_equal(words[0], 0);
    test_writer_store(&w, pages, every_nth(pages, 70, 1, 60));
    assert_int_equal(test_writer_sync(&w), 192 + 6);
    test_writer_claim(&w, 0, 64, 64, words);
    assert_int_equal(words[0], 0x3f);
    assert_int_equal(test_writer_drain(&w, NULL), 192);
    test_writer_destroy(&w);
}

static void vmm_writes_are_merged(void **state)
{
    uint64_t words[2];
    struct test_writer w;
    uint16_t value = 7;
    gpa_t base;

    test_writer_create(&w, odd_slots, ODD_SLOTS, MEMORY_MEMFD, backend_of(state));
    test_writer_log(&w, backend_of(state));
    (void)test_writer_drain(&w, NULL);
    (void)test_writer_sync(&w);
    base = w.memory->region[3].gpa;
    /* Straddles pages 9 and 10; then the last page of the slot. */
    assert_int_equal(memory_write(w.memory, base + 10 * 4096 - 1, &value, 2), 0);
    assert_int_equal(memory_write(w.memory, base + 65 * 4096 - 2, &value, 2), 0);
    assert_int_equal(test_writer_sync(&w), 3);
    test_writer_claim(&w, 3, 0, 65, words);
    assert_int_equal(words[0], 3ull << 9);
    assert_int_equal(words[1], 1);
    /* A mark that comes after the sync is still in the claim. */
    assert_int_equal(test_writer_sync(&w), 0);
    assert_int_equal(memory_write(w.memory, base, &value, 2), 0);
    test_writer_claim(&w, 3, 0, 65, words);
    assert_int_equal(words[0], 1);
    assert_int_equal(test_writer_sync(&w), 0);
    test_writer_destroy(&w);
}

/* Slots have no bitmap beside a ring: there, what comes into the rings tells. */
static bool is_logged(const struct test_writer *w, unsigned slot)
{
    const struct dirty_log_vm *vm = writer_vm_log(w->vm);
    uint64_t words[MAX_WORDS];
    struct kvm_dirty_log request = {.slot = slot, .dirty_bitmap = words};

    if (ioctl(vm->vm_fd, KVM_GET_DIRTY_LOG, &request) == 0)
        return true;
    assert_int_equal(errno, ENOENT);
    return false;
}

static void logging_is_off_after_close(void **state)
{
    bool ring = backend_of(state) == DIRTY_LOG_RING;
    uint64_t pages[100];
    uint64_t found = 0;
    struct test_writer w;

    test_writer_create(&w, odd_slots, ODD_SLOTS, MEMORY_ANON, backend_of(state));
    for (int again = 0; again < 3; again++) {
        test_writer_log(&w, backend_of(state));
        for (unsigned i = 0; !ring && i < ODD_SLOTS; i++)
            assert_true(is_logged(&w, i));
        if (!ring)
            assert_false(is_logged(&w, ODD_SLOTS)); /* the VM's own */
        test_writer_store(&w, pages, every_nth(pages, 100, 1, 0));
        test_writer_unlog(&w);
        for (unsigned i = 0; !ring && i <= ODD_SLOTS; i++)
            assert_false(is_logged(&w, i));
        test_writer_store(&w, pages, every_nth(pages, 100, 1, 0));
        if (ring)
            assert_int_equal(dirty_rings_harvest(writer_vm_log(w.vm)->rings, &found, NULL, NULL),
                             0);
        assert_int_equal(found, 0);
    }
    test_writer_destroy(&w);
}

static void backends_take_turns(void **state)
{
    uint64_t pages[50];
    struct test_writer w;

    (void)state;
    test_writer_create(&w, odd_slots, ODD_SLOTS, MEMORY_ANON, DIRTY_LOG_GET);
    for (int i = 0; i < 6; i++) {
        test_writer_log(&w, i % 2 ? DIRTY_LOG_GET : dirty_log_best(&w.kvm, NULL));
        assert_int_equal(test_writer_sync(&w), w.total_pages);
        (void)test_writer_drain(&w, NULL);
        (void)test_writer_sync(&w);
        test_writer_store(&w, pages, every_nth(pages, 50, 1, 0));
        assert_int_equal(test_writer_sync(&w), 50);
        (void)test_writer_drain(&w, NULL);
        assert_int_equal(test_writer_sync(&w), 0);
        test_writer_unlog(&w);
    }
    test_writer_destroy(&w);
}

/* Whatever ranges are cleared, all that was claimed is re-protected and nothing else lost. */
static void clear_has_options(void **state)
{
    static const uint32_t chunks[] = {64, 192, 4096, 0};
    uint64_t pages[LARGE_PAGES];
    struct dirty_log_options options = {.backend = DIRTY_LOG_CLEAR};
    struct test_writer w;

    (void)state;
    test_writer_create(&w, &odd_slots[ODD_SLOTS - 1], 1, MEMORY_THP, DIRTY_LOG_CLEAR);
    for (unsigned i = 0; i < 12; i++) {
        struct error err = {""};
        uint64_t ioctls, npages, words[MAX_WORDS];

        options.chunk_pages = chunks[i % 4];
        options.ranges = (enum dirty_log_ranges)(i / 4);
        if (dirty_log_open(&w.log, writer_vm_log(w.vm), &options, &err))
            fail_msg("%s", err.text);
        (void)test_writer_drain(&w, NULL);
        (void)test_writer_sync(&w);
        for (uint64_t step = 1; step < 600; step = step * 3 + 1) {
            npages = every_nth(pages, LARGE_PAGES, step, step / 2);
            test_writer_store(&w, pages, npages);
            assert_int_equal(test_writer_sync(&w), npages);
            dirty_log_cost_reset(w.log);
            test_writer_claim(&w, 0, 0, LARGE_PAGES, words);
            ioctls = dirty_log_cost(w.log).nioctls;
            assert_int_equal(bitmap_count(words, LARGE_PAGES), npages);
            assert_true(ioctls >= 1 && ioctls <= bitmap_words(LARGE_PAGES));
            if (step == 1 && options.chunk_pages == 64)
                assert_int_equal(ioctls, bitmap_words(LARGE_PAGES));
        }
        test_writer_unlog(&w);
    }
    test_writer_destroy(&w);
}

static void errors_are_remembered(void **state)
{
    static const uint64_t one_slot[] = {64};
    const struct dirty_log_options options = {.backend = backend_of(state)};
    struct dirty_log_sync found = {0};
    struct error err = {""};
    struct dirty_log_vm of;
    struct test_writer w;
    uint64_t *words;
    int fd;

    test_writer_create(&w, one_slot, 1, MEMORY_ANON, backend_of(state));
    of = *writer_vm_log(w.vm);
    of.vm_fd = fd = dup(of.vm_fd);
    assert_true(fd >= 0);
    if (dirty_log_open(&w.log, &of, &options, &err))
        fail_msg("%s", err.text);
    (void)close(fd);
    assert_int_equal(dirty_log_sync(w.log, &found, &err), -EBADF);
    assert_non_null(strstr(err.text, "KVM_GET_DIRTY_LOG"));
    assert_int_equal(dup2(writer_vm_log(w.vm)->vm_fd, fd), fd);
    assert_int_equal(dirty_log_sync(w.log, &found, &err), -EBADF);
    assert_int_equal(dirty_log_claim(w.log, 0, 0, 64, &words, &err), -EBADF);
    assert_non_null(strstr(err.text, "KVM_GET_DIRTY_LOG"));
    test_writer_destroy(&w);
    (void)close(fd);
}

static void names_and_support(void **state)
{
    struct kvm old = {.manual_protect = 0};
    struct kvm current = {.manual_protect = 3};
    struct memory none = {.nregions = 0};
    const struct dirty_log_vm of = {&old, -1, &none, NULL};
    const struct dirty_log_options clear = {.backend = DIRTY_LOG_CLEAR};
    const struct dirty_log_options ring = {.backend = DIRTY_LOG_RING};
    struct dirty_log *log = NULL;
    struct error err = {""};
    enum dirty_log_backend backend;

    (void)state;
    assert_int_equal(dirty_log_backend_parse("get", &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_GET);
    assert_int_equal(dirty_log_backend_parse("clear", &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_CLEAR);
    assert_int_equal(dirty_log_backend_parse("ring", &backend, &err), 0);
    assert_int_equal(backend, DIRTY_LOG_RING);
    assert_int_equal(dirty_log_backend_parse("bitmap", &backend, &err), -EINVAL);
    assert_non_null(strstr(err.text, "get, clear or ring"));
    assert_int_equal(dirty_log_best(&old, NULL), DIRTY_LOG_GET);
    assert_int_equal(dirty_log_best(&current, NULL), DIRTY_LOG_CLEAR);
    assert_int_equal(dirty_log_open(&log, &of, &clear, &err), -ENOTSUP);
    assert_null(log);
    /* A host with rings, a VM without. */
    old.dirty_ring_max = 65536;
    assert_int_equal(dirty_log_open(&log, &of, &ring, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "when the guest is started"));
    dirty_log_close(NULL);
}

int main(void)
{
    static enum dirty_log_backend backends[] = {DIRTY_LOG_GET, DIRTY_LOG_CLEAR, DIRTY_LOG_RING};
    struct CMUnitTest tests[24] = {cmocka_unit_test(names_and_support),
                                   cmocka_unit_test(backends_take_turns)};
    size_t ntests = 2;

    test_writer_require_kvm();
    for (size_t i = 0; i < 3; i++) {
        const struct CMUnitTest each[] = {
            cmocka_unit_test_prestate(everything_is_pending_first, &backends[i]),
            cmocka_unit_test_prestate(guest_stores_are_found, &backends[i]),
            cmocka_unit_test_prestate(claims_are_partial, &backends[i]),
            cmocka_unit_test_prestate(vmm_writes_are_merged, &backends[i]),
            cmocka_unit_test_prestate(logging_is_off_after_close, &backends[i]),
            cmocka_unit_test_prestate(errors_are_remembered, &backends[i]),
        };
        size_t n = sizeof(each) / sizeof(each[0]);

        if (!test_writer_has(backends[i]))
            continue;
        /* The rings have a descriptor of their own. */
        n -= backends[i] == DIRTY_LOG_RING;
        memcpy(&tests[ntests], each, n * sizeof(each[0]));
        ntests += n;
        if (backends[i] == DIRTY_LOG_CLEAR)
            tests[ntests++] = (struct CMUnitTest)cmocka_unit_test(clear_has_options);
    }
    return _cmocka_run_group_tests("dirty_log", tests, ntests, NULL, NULL);
}
