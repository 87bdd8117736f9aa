/* SPDX-License-Identifier: MIT
 *
 * The dirty-log oracle. A guest stores increasing numbers into pseudo-random pages while a second
 * thread writes like a device, and the log is harvested round after round. Each store changes its
 * page, so contents tell what the log may not miss:
 *
 *   - a page that was found changed without being reported must be reported in the next round;
 *   - a copy that takes over reported pages only must equal guest memory once everything stands
 *     still and the log was harvested a last time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kvm/bare_vm.h"
#include "vmm/base/bitmap.h"
#include "vmm/dirty_log.h"

#define ROUNDS           40
#define STORES_PER_ROUND 150
#define DEVICE_OFFSET    8 /* the guest stores at 0, the device here */

/* What a page holds for this test. */
struct content {
    uint32_t guest, device;
};

struct page_view {
    struct content seen; /* at the last look, reported or not */
    struct content copy; /* at the last report */
    bool owed;           /* changed without a report: the next round must have it */
};

struct oracle {
    struct bare_vm vm;
    struct dirty_log *log;
    struct page_view *view[MEMORY_MAX_REGIONS];
    pthread_t device;
    bool device_stop; /* atomic */
    unsigned round;
    uint64_t reported;
};

struct layout {
    enum dirty_log_backend backend;
    enum memory_backing backing;
    unsigned nregions;
    uint64_t npages[MEMORY_MAX_REGIONS];
};

static struct content look(const struct oracle *o, unsigned region, uint64_t page)
{
    const uint8_t *at = o->vm.memory.region[region].hva + page * MEMORY_PAGE_BYTES;
    const uint32_t *guest = (const uint32_t *)(const void *)at;
    const uint32_t *device = (const uint32_t *)(const void *)(at + DEVICE_OFFSET);

    return (struct content){__atomic_load_n(guest, __ATOMIC_ACQUIRE),
                            __atomic_load_n(device, __ATOMIC_ACQUIRE)};
}

static bool same(struct content a, struct content b)
{
    return a.guest == b.guest && a.device == b.device;
}

static void *device_thread(void *argument)
{
    struct oracle *o = argument;
    uint32_t sequence = 99;

    for (uint32_t n = 1; !__atomic_load_n(&o->device_stop, __ATOMIC_ACQUIRE); n++) {
        unsigned region;
        uint64_t page;
        uint32_t *word;

        sequence = sequence * 1664525u + 1013904223u;
        bare_vm_locate(&o->vm, (uint32_t)((uint64_t)sequence * o->vm.npages >> 32), &region, &page);
        word = memory_at(&o->vm.memory,
                         o->vm.memory.region[region].gpa + page * MEMORY_PAGE_BYTES + DEVICE_OFFSET,
                         sizeof(*word));
        /* Store, then mark: the order that every device has to keep. */
        __atomic_store_n(word, n, __ATOMIC_RELEASE);
        memory_mark_written(&o->vm.memory,
                            o->vm.memory.region[region].gpa + page * MEMORY_PAGE_BYTES +
                                DEVICE_OFFSET,
                            sizeof(*word));
        if (n % 16 == 0)
            bare_vm_await(&o->vm, 1); /* about as fast as the guest */
    }
    return NULL;
}

static void judge(struct oracle *o, unsigned region, uint64_t page, bool reported)
{
    struct page_view *view = &o->view[region][page];
    struct content now = look(o, region, page);

    if (view->owed && !reported)
        fail_msg("round %u: region %u page %lu changed before the last round and was not reported",
                 o->round, region, (unsigned long)page);
    view->owed = !reported && !same(now, view->seen);
    view->seen = now;
    if (reported) {
        view->copy = now;
        o->reported++;
    }
}

static void harvest(struct oracle *o)
{
    uint64_t words[BARE_VM_MAX_PAGES / 64];
    uint64_t chunk = 64ull * (1 + o->round % 9);
    struct error err = {""};
    struct dirty_log_sync found;

    if (dirty_log_sync(o->log, &found, &err))
        fail_msg("%s", err.text);
    for (unsigned i = 0; i < o->vm.memory.nregions; i++) {
        uint64_t npages = o->vm.memory.region[i].npages;

        for (uint64_t first = 0; first < npages; first += chunk) {
            uint64_t n = npages - first < chunk ? npages - first : chunk;

            if (dirty_log_claim(o->log, i, first, n, words, &err))
                fail_msg("%s", err.text);
            for (uint64_t page = 0; page < n; page++)
                judge(o, i, first + page, bitmap_test(words, page));
        }
    }
}

static void check_copy(const struct oracle *o)
{
    for (unsigned i = 0; i < o->vm.memory.nregions; i++) {
        for (uint64_t page = 0; page < o->vm.memory.region[i].npages; page++) {
            if (!same(o->view[i][page].copy, look(o, i, page)))
                fail_msg("region %u page %lu: the copy is stale", i, (unsigned long)page);
        }
    }
}

static void start_device(struct oracle *o)
{
    o->device_stop = false;
    assert_int_equal(pthread_create(&o->device, NULL, device_thread, o), 0);
}

static void stop_device(struct oracle *o)
{
    __atomic_store_n(&o->device_stop, true, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(o->device, NULL), 0);
}

/* One migration's worth of rounds: logging on while both write, off after they stopped. */
static void campaign(struct oracle *o, enum dirty_log_backend backend)
{
    struct error err = {""};
    const struct dirty_log_vm of = {&o->vm.kvm, o->vm.vm_fd, &o->vm.memory, NULL};
    const struct dirty_log_options options = {.backend = backend};
    struct dirty_log_sync found = {.pending_pages = 1};

    bare_vm_start(&o->vm);
    start_device(o);
    bare_vm_await(&o->vm, STORES_PER_ROUND);
    if (dirty_log_open(&o->log, &of, &options, &err))
        fail_msg("%s", err.text);
    for (o->round = 0; o->round < ROUNDS; o->round++) {
        harvest(o);
        bare_vm_await(&o->vm, STORES_PER_ROUND);
    }
    stop_device(o);
    bare_vm_stop(&o->vm);
    harvest(o);
    check_copy(o);
    assert_int_equal(dirty_log_sync(o->log, &found, &err), 0);
    assert_int_equal(found.pending_pages, 0);
    dirty_log_close(o->log);
}

static void nothing_is_missed(void **state)
{
    const struct layout *layout = *state;
    struct oracle o = {.log = NULL};

    bare_vm_create(&o.vm, layout->npages, layout->nregions, layout->backing);
    for (unsigned i = 0; i < o.vm.memory.nregions; i++) {
        o.view[i] = calloc(o.vm.memory.region[i].npages, sizeof(*o.view[i]));
        assert_non_null(o.view[i]);
    }
    /* On, off and on again: what was written while the log was off is in the first claims. */
    campaign(&o, layout->backend);
    campaign(&o, layout->backend);
    print_message("%lu page reports\n", (unsigned long)o.reported);
    for (unsigned i = 0; i < o.vm.memory.nregions; i++)
        free(o.view[i]);
    bare_vm_destroy(&o.vm);
}

static struct layout layouts[] = {
    {DIRTY_LOG_GET, MEMORY_ANON, 1, {1}},
    {DIRTY_LOG_GET, MEMORY_ANON, 1, {63}},
    {DIRTY_LOG_GET, MEMORY_ANON, 1, {64}},
    {DIRTY_LOG_GET, MEMORY_ANON, 1, {65}},
    {DIRTY_LOG_GET, MEMORY_THP, 1, {4096 + 37}},
    {DIRTY_LOG_GET, MEMORY_MEMFD, 5, {1, 63, 64, 65, 1024 + 37}},
    {DIRTY_LOG_CLEAR, MEMORY_ANON, 1, {1}},
    {DIRTY_LOG_CLEAR, MEMORY_ANON, 1, {63}},
    {DIRTY_LOG_CLEAR, MEMORY_ANON, 1, {64}},
    {DIRTY_LOG_CLEAR, MEMORY_ANON, 1, {65}},
    {DIRTY_LOG_CLEAR, MEMORY_THP, 1, {4096 + 37}},
    {DIRTY_LOG_CLEAR, MEMORY_MEMFD, 5, {1, 63, 64, 65, 1024 + 37}},
};

#define NLAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

int main(void)
{
    struct CMUnitTest tests[NLAYOUTS];
    size_t ntests = 0;
    struct kvm kvm;

    bare_vm_require_kvm();
    if (kvm_open(&kvm, NULL))
        return 1;
    for (size_t i = 0; i < NLAYOUTS; i++) {
        if (!dirty_log_supported(&kvm, layouts[i].backend)) {
            print_message("skipped: no backend %s\n", dirty_log_backend_name(layouts[i].backend));
            continue;
        }
        tests[ntests++] = (struct CMUnitTest){
            .name = dirty_log_backend_name(layouts[i].backend),
            .test_func = nothing_is_missed,
            .initial_state = &layouts[i],
        };
    }
    kvm_close(&kvm);
    return _cmocka_run_group_tests("oracle", tests, ntests, NULL, NULL);
}
