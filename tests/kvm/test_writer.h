/* SPDX-License-Identifier: MIT
 *
 * A writer VM (tools/writer_vm.h) for tests, and a dirty log on it; every failure fails the
 * test. */
#ifndef TESTS_KVM_TEST_WRITER_H
#define TESTS_KVM_TEST_WRITER_H

#include "tools/writer_vm.h"
#include "vmm/base/bitmap.h"
#include "vmm/dirty_log.h"

#define TEST_WRITER_RING 1024u

struct test_writer {
    struct kvm kvm;
    struct writer_vm *vm;
    struct memory *memory;
    unsigned nslots;
    uint64_t total_pages; /* of all tested slots */
    struct dirty_log *log;
};

/* Exits with 77 and a reason where this host has no usable KVM; call first in main(). */
void test_writer_require_kvm(void);
/* Whether this host has the backend; prints that the test is skipped where not. */
bool test_writer_has(enum dirty_log_backend backend);

/* One vCPU in ring 3, held; with dirty rings where the backend is the ring. */
void test_writer_create(struct test_writer *w, const uint64_t *npages, unsigned nslots,
                        enum memory_backing backing, enum dirty_log_backend backend);
void test_writer_destroy(struct test_writer *w);

void test_writer_log(struct test_writer *w, enum dirty_log_backend backend);
void test_writer_unlog(struct test_writer *w);

/* Stores to these pages, counted through all slots, once each. */
void test_writer_store(struct test_writer *w, const uint64_t *pages, uint64_t npages);

/* Pages pending after a sync. */
uint64_t test_writer_sync(struct test_writer *w);
void test_writer_claim(struct test_writer *w, unsigned slot, uint64_t first, uint64_t npages,
                       uint64_t *words);
/* Claims everything into `found`, a bit for each page counted through all slots (may be NULL);
 * returns how many. */
uint64_t test_writer_drain(struct test_writer *w, uint64_t *found);

#endif
