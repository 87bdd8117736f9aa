/* SPDX-License-Identifier: MIT */
#include "tests/kvm/test_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void test_writer_require_kvm(void)
{
    struct error err = {""};
    struct kvm kvm;

    if (kvm_open(&kvm, &err)) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    kvm_close(&kvm);
}

bool test_writer_has(enum dirty_log_backend backend)
{
    struct kvm kvm;
    bool has;

    assert_int_equal(kvm_open(&kvm, NULL), 0);
    has = dirty_log_supported(&kvm, backend);
    kvm_close(&kvm);
    if (!has)
        print_message("skipped: no backend %s\n", dirty_log_backend_name(backend));
    return has;
}

void test_writer_create(struct test_writer *w, const uint64_t *npages, unsigned nslots,
                        enum memory_backing backing, enum dirty_log_backend backend)
{
    struct writer_vm_config config = {
        .npages = npages,
        .nslots = nslots,
        .backing = backing,
        .ncpus = 1,
        .privilege = 3,
        .dirty_ring_entries = backend == DIRTY_LOG_RING ? TEST_WRITER_RING : 0,
    };
    struct error err = {""};

    memset(w, 0, sizeof(*w));
    w->nslots = nslots;
    for (unsigned i = 0; i < nslots; i++)
        w->total_pages += npages[i];
    config.max_list = w->total_pages;
    if (kvm_open(&w->kvm, &err) || writer_vm_open(&w->vm, &w->kvm, &config, &err))
        fail_msg("%s", err.text);
    w->memory = writer_vm_memory(w->vm);
}

void test_writer_destroy(struct test_writer *w)
{
    test_writer_unlog(w);
    writer_vm_close(w->vm);
    kvm_close(&w->kvm);
}

void test_writer_log(struct test_writer *w, enum dirty_log_backend backend)
{
    const struct dirty_log_options options = {.backend = backend};
    struct error err = {""};

    if (dirty_log_open(&w->log, writer_vm_log(w->vm), &options, &err))
        fail_msg("%s", err.text);
}

void test_writer_unlog(struct test_writer *w)
{
    dirty_log_close(w->log);
    w->log = NULL;
}

void test_writer_store(struct test_writer *w, const uint64_t *pages, uint64_t npages)
{
    gpa_t *list = calloc(npages, sizeof(*list));
    struct error err = {""};

    assert_non_null(list);
    for (uint64_t i = 0; i < npages; i++) {
        uint64_t page = pages[i];
        unsigned slot = 0;

        for (; page >= w->memory->region[slot].npages; slot++)
            page -= w->memory->region[slot].npages;
        assert_true(slot < w->nslots);
        list[i] = writer_vm_gpa(w->vm, slot, page);
    }
    if (writer_vm_set_list(w->vm, 0, list, npages, &err) || writer_vm_write(w->vm, 1, NULL, &err))
        fail_msg("%s", err.text);
    free(list);
}

uint64_t test_writer_sync(struct test_writer *w)
{
    struct dirty_log_sync found = {0};
    struct error err = {""};
    uint64_t sum = 0;

    if (dirty_log_sync(w->log, &found, &err))
        fail_msg("%s", err.text);
    for (unsigned i = 0; i < w->nslots; i++)
        sum += found.slot[i].pending_pages;
    assert_int_equal(found.pending_pages, sum);
    return sum;
}

void test_writer_claim(struct test_writer *w, unsigned slot, uint64_t first, uint64_t npages,
                       uint64_t *words)
{
    struct error err = {""};
    uint64_t *claimed;

    if (dirty_log_claim(w->log, slot, first, npages, &claimed, &err))
        fail_msg("%s", err.text);
    memcpy(words, claimed, bitmap_words(npages) * sizeof(*words));
}

uint64_t test_writer_drain(struct test_writer *w, uint64_t *found)
{
    uint64_t *words = calloc(bitmap_words(w->total_pages), sizeof(*words));
    uint64_t base = 0;
    uint64_t count = 0;

    assert_non_null(words);
    for (unsigned slot = 0; slot < w->nslots; slot++) {
        uint64_t npages = w->memory->region[slot].npages;

        test_writer_claim(w, slot, 0, npages, words);
        count += bitmap_count(words, npages);
        for (uint64_t page = 0; found && page < npages; page++) {
            if (bitmap_test(words, page))
                bitmap_set(found, base + page);
        }
        base += npages;
    }
    free(words);
    return count;
}
