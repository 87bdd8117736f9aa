/* SPDX-License-Identifier: MIT
 *
 * The dirty log's promises one by one, with a guest that makes a known number of stores. */
#include <errno.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kvm/bare_vm.h"
#include "vmm/base/bitmap.h"
#include "vmm/dirty_log.h"

static const uint64_t odd_regions[] = {1, 63, 64, 65, 4096 + 37};
#define ODD_REGIONS (sizeof(odd_regions) / sizeof(odd_regions[0]))

static uint64_t all_pages(const struct bare_vm *vm)
{
    uint64_t pages = 0;

    for (unsigned i = 0; i < vm->memory.nregions; i++)
        pages += vm->memory.region[i].npages;
    return pages;
}

static struct dirty_log *must_open(struct bare_vm *vm, enum dirty_log_backend backend)
{
    struct error err = {""};
    struct dirty_log *log = NULL;
    const struct dirty_log_vm of = {&vm->kvm, vm->vm_fd, &vm->memory, NULL};
    const struct dirty_log_options options = {.backend = backend};

    if (dirty_log_open(&log, &of, &options, &err))
        fail_msg("%s", err.text);
    return log;
}

static uint64_t must_sync(struct dirty_log *log)
{
    struct error err = {""};
    struct dirty_log_sync found = {0};

    if (dirty_log_sync(log, &found, &err))
        fail_msg("%s", err.text);
    return found.pending_pages;
}

static void must_claim(struct dirty_log *log, unsigned region, uint64_t first, uint64_t npages,
                       uint64_t *words)
{
    struct error err = {""};

    if (dirty_log_claim(log, region, first, npages, words, &err))
        fail_msg("%s", err.text);
}

/* Claims everything and returns how many pages that gave. */
static uint64_t drain(struct bare_vm *vm, struct dirty_log *log)
{
    uint64_t words[BARE_VM_MAX_PAGES / 64];
    uint64_t pages = 0;

    for (unsigned i = 0; i < vm->memory.nregions; i++) {
        uint64_t npages = vm->memory.region[i].npages;
        must_claim(log, i, 0, npages, words);
        pages += bitmap_count(words, npages);
    }
    return pages;
}

static enum dirty_log_backend backend_of(void **state)
{
    return *(enum dirty_log_backend *)*state;
}

static void everything_is_pending_first(void **state)
{
    struct bare_vm vm;
    struct dirty_log *log;

    bare_vm_create(&vm, odd_regions, ODD_REGIONS, MEMORY_ANON);
    log = must_open(&vm, backend_of(state));
    assert_int_equal(must_sync(log), all_pages(&vm));
    assert_int_equal(drain(&vm, log), all_pages(&vm));
    assert_int_equal(must_sync(log), 0);
    assert_int_equal(drain(&vm, log), 0);
    dirty_log_close(log);
    bare_vm_destroy(&vm);
}

static void guest_stores_are_found(void **state)
{
    struct bare_vm vm;
    struct dirty_log *log;

    bare_vm_create(&vm, odd_regions, ODD_REGIONS, MEMORY_THP);
    log = must_open(&vm, backend_of(state));
    (void)drain(&vm, log);
    for (uint32_t stores = 1; stores < 3000; stores = stores * 2 + 1) {
        uint64_t words[MEMORY_MAX_REGIONS][BARE_VM_MAX_PAGES / 64];

        bare_vm_store(&vm, stores);
        (void)must_sync(log);
        for (unsigned i = 0; i < vm.memory.nregions; i++)
            must_claim(log, i, 0, vm.memory.region[i].npages, words[i]);
        for (uint32_t i = 0; i < stores; i++) {
            unsigned region;
            uint64_t page;
            bare_vm_locate(&vm, bare_vm_predict(&vm), &region, &page);
            assert_true(bitmap_test(words[region], page));
        }
    }
    dirty_log_close(log);
    bare_vm_destroy(&vm);
}

/* A page that is pending and written again is reported once, with what it held at the claim; a
 * store after the claim is reported again. */
static void claims_are_partial(void **state)
{
    static const uint64_t one_region[] = {256};
    uint64_t words[BARE_VM_MAX_PAGES / 64];
    uint64_t pending;
    uint64_t got = 0;
    struct bare_vm vm;
    struct dirty_log *log;

    bare_vm_create(&vm, one_region, 1, MEMORY_ANON);
    log = must_open(&vm, backend_of(state));
    (void)drain(&vm, log);
    (void)must_sync(log);
    bare_vm_store(&vm, 5000); /* practically every one of 256 pages */
    (void)must_sync(log);
    must_claim(log, 1, 64, 64, words);
    got = bitmap_count(words, 64);
    assert_true(got > 0);
    pending = must_sync(log);
    must_claim(log, 1, 64, 64, words);
    assert_int_equal(bitmap_count(words, 64), 0);
    assert_int_equal(drain(&vm, log), pending);
    bare_vm_store(&vm, 5000);
    (void)must_sync(log);
    must_claim(log, 1, 64, 64, words);
    assert_int_equal(bitmap_count(words, 64), got);
    dirty_log_close(log);
    bare_vm_destroy(&vm);
}

static void vmm_writes_are_merged(void **state)
{
    uint64_t words[BARE_VM_MAX_PAGES / 64];
    struct bare_vm vm;
    struct dirty_log *log;
    gpa_t base;
    uint16_t value = 7;

    bare_vm_create(&vm, odd_regions, ODD_REGIONS, MEMORY_MEMFD);
    log = must_open(&vm, backend_of(state));
    (void)drain(&vm, log);
    (void)must_sync(log);
    (void)drain(&vm, log);
    base = vm.memory.region[4].gpa;
    /* Straddles pages 9 and 10; then the last page of the slot. */
    assert_int_equal(memory_write(&vm.memory, base + 10 * 4096 - 1, &value, 2), 0);
    assert_int_equal(memory_write(&vm.memory, base + 65 * 4096 - 2, &value, 2), 0);
    assert_int_equal(must_sync(log), 3);
    must_claim(log, 4, 0, 65, words);
    assert_int_equal(words[0], 3ull << 9);
    assert_int_equal(words[1], 1);
    /* A mark that comes after the sync is still in the claim. */
    assert_int_equal(must_sync(log), 0);
    assert_int_equal(memory_write(&vm.memory, base, &value, 2), 0);
    must_claim(log, 4, 0, 65, words);
    assert_int_equal(words[0], 1);
    assert_int_equal(must_sync(log), 0);
    dirty_log_close(log);
    bare_vm_destroy(&vm);
}

static int raw_get(const struct bare_vm *vm, unsigned slot)
{
    uint64_t words[BARE_VM_MAX_PAGES / 64];
    struct kvm_dirty_log request = {.slot = slot, .dirty_bitmap = words};

    return ioctl(vm->vm_fd, KVM_GET_DIRTY_LOG, &request) ? errno : 0;
}

static void logging_is_off_after_close(void **state)
{
    struct bare_vm vm;

    bare_vm_create(&vm, odd_regions, ODD_REGIONS, MEMORY_ANON);
    for (int again = 0; again < 3; again++) {
        struct dirty_log *log = must_open(&vm, backend_of(state));

        for (unsigned i = 0; i < vm.memory.nregions; i++)
            assert_int_equal(raw_get(&vm, i), 0);
        bare_vm_store(&vm, 100);
        dirty_log_close(log);
        for (unsigned i = 0; i < vm.memory.nregions; i++)
            assert_int_equal(raw_get(&vm, i), ENOENT);
        bare_vm_store(&vm, 100);
    }
    bare_vm_destroy(&vm);
}

static void backends_take_turns(void **state)
{
    struct bare_vm vm;

    (void)state;
    bare_vm_create(&vm, odd_regions, ODD_REGIONS, MEMORY_ANON);
    for (int i = 0; i < 6; i++) {
        enum dirty_log_backend backend = i % 2 ? DIRTY_LOG_GET : dirty_log_best(&vm.kvm, NULL);
        struct dirty_log *log = must_open(&vm, backend);

        assert_int_equal(must_sync(log), all_pages(&vm));
        (void)drain(&vm, log);
        bare_vm_store(&vm, 50);
        assert_true(must_sync(log) > 0);
        (void)drain(&vm, log);
        assert_int_equal(must_sync(log), 0);
        dirty_log_close(log);
    }
    bare_vm_destroy(&vm);
}

static void errors_are_remembered(void **state)
{
    static const uint64_t one_region[] = {64};
    uint64_t words[1];
    struct dirty_log_sync found = {0};
    struct error err = {""};
    struct bare_vm vm;
    struct dirty_log_vm of = {&vm.kvm, -1, &vm.memory, NULL};
    const struct dirty_log_options options = {.backend = backend_of(state)};
    struct dirty_log *log = NULL;
    int fd;

    bare_vm_create(&vm, one_region, 1, MEMORY_ANON);
    fd = dup(vm.vm_fd);
    assert_true(fd >= 0);
    of.vm_fd = fd;
    if (dirty_log_open(&log, &of, &options, &err))
        fail_msg("%s", err.text);
    (void)close(fd);
    assert_int_equal(dirty_log_sync(log, &found, &err), -EBADF);
    assert_non_null(strstr(err.text, "KVM_GET_DIRTY_LOG"));
    assert_int_equal(dup2(vm.vm_fd, fd), fd);
    assert_int_equal(dirty_log_sync(log, &found, &err), -EBADF);
    assert_int_equal(dirty_log_claim(log, 1, 0, 64, words, &err), -EBADF);
    assert_non_null(strstr(err.text, "KVM_GET_DIRTY_LOG"));
    dirty_log_close(log);
    (void)close(fd);
    bare_vm_destroy(&vm);
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

#define WITH(test, backend) cmocka_unit_test_prestate(test, &(backend))

int main(void)
{
    static enum dirty_log_backend get = DIRTY_LOG_GET;
    static enum dirty_log_backend best;
    struct kvm kvm;

    bare_vm_require_kvm();
    if (kvm_open(&kvm, NULL))
        return 1;
    best = dirty_log_best(&kvm, NULL);
    kvm_close(&kvm);

    const struct CMUnitTest tests[] = {
        WITH(everything_is_pending_first, get), WITH(everything_is_pending_first, best),
        WITH(guest_stores_are_found, get),      WITH(guest_stores_are_found, best),
        WITH(claims_are_partial, get),          WITH(claims_are_partial, best),
        WITH(vmm_writes_are_merged, get),       WITH(vmm_writes_are_merged, best),
        WITH(logging_is_off_after_close, get),  WITH(logging_is_off_after_close, best),
        WITH(errors_are_remembered, get),       WITH(errors_are_remembered, best),
        cmocka_unit_test(backends_take_turns),  cmocka_unit_test(names_and_support),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
