/* SPDX-License-Identifier: MIT
 *
 * Harvesting a dirty ring of a kernel that is played here: what KVM_RESET_DIRTY_RINGS may answer,
 * and that no page is handed out before it is reset. */
#include <errno.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "vmm/base/bitmap.h"
#include "vmm/dirty_ring.h"

#define NENTRIES 1024u
#define NPAGES   4096u
#define RESERVED 64u /* what KVM keeps free of a ring */

/* The kernel's side. */
static struct kernel {
    struct kvm_dirty_gfn *ring;
    unsigned next_dirty, next_reset; /* wrap */
    unsigned nresets;
    unsigned interrupts; /* so many resets more end at a pending signal… */
    unsigned before;     /* …each after so many entries */
    int interrupted;     /* …and this is what they return, unless they came further */
    bool stubborn;       /* no reset resets anything */
} kernel;

static int reset(void)
{
    unsigned limit = UINT32_MAX;
    unsigned done = 0;

    kernel.nresets++;
    if (kernel.stubborn)
        return 0;
    if (kernel.interrupts) {
        kernel.interrupts--;
        limit = kernel.before;
    }
    for (; done < limit; done++) {
        struct kvm_dirty_gfn *entry = &kernel.ring[kernel.next_reset % NENTRIES];

        if (!(entry->flags & KVM_DIRTY_GFN_F_RESET))
            break;
        entry->flags = 0;
        kernel.next_reset++;
    }
    return limit == UINT32_MAX || done ? (int)done : kernel.interrupted;
}

int kvm_ioctl(int fd, unsigned long request, const char *name, void *argument, struct error *err)
{
    int result = request == KVM_RESET_DIRTY_RINGS ? reset() : 0;

    (void)fd;
    (void)argument;
    return result < 0 ? error_set(err, -result, "%s: %s", name, strerror(-result)) : result;
}

static void dirty(unsigned count)
{
    for (; count; count--) {
        struct kvm_dirty_gfn *entry = &kernel.ring[kernel.next_dirty % NENTRIES];

        entry->slot = 0;
        entry->offset = kernel.next_dirty % NPAGES;
        entry->flags = KVM_DIRTY_GFN_F_DIRTY;
        kernel.next_dirty++;
    }
}

struct fixture {
    struct dirty_rings *rings;
    uint64_t *words;
    int fd;
};

static int set_up(void **state)
{
    static const struct kvm kvm = {.dirty_ring_max = 65536 * DIRTY_RING_ENTRY_BYTES,
                                   .dirty_ring_capability = KVM_CAP_DIRTY_LOG_RING_ACQ_REL};
    static const struct memory memory = {.nregions = 1, .region = {{.npages = NPAGES}}};
    off_t at = (off_t)KVM_DIRTY_LOG_PAGE_OFFSET * (off_t)MEMORY_PAGE_BYTES;
    size_t bytes = NENTRIES * sizeof(struct kvm_dirty_gfn);
    struct fixture *f = calloc(1, sizeof(*f));

    memset(&kernel, 0, sizeof(kernel));
    f->words = calloc(bitmap_words(NPAGES), sizeof(uint64_t));
    /* In place of the vCPU's descriptor. */
    f->fd = memfd_create("vcpu", 0);
    assert_int_equal(ftruncate(f->fd, at + (off_t)bytes), 0);
    kernel.ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, at);
    assert_true(kernel.ring != MAP_FAILED);
    assert_int_equal(dirty_rings_open(&f->rings, &kvm, -1, 1, NENTRIES, NULL), 0);
    assert_int_equal(dirty_rings_attach(f->rings, 0, f->fd, NULL), 0);
    assert_int_equal(dirty_rings_start(f->rings, &memory, NULL), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    dirty_rings_close(f->rings);
    munmap(kernel.ring, NENTRIES * sizeof(struct kvm_dirty_gfn));
    close(f->fd);
    free(f->words);
    free(f);
    return 0;
}

static int harvest(struct fixture *f, uint64_t *found)
{
    uint64_t reset_ns;

    return dirty_rings_harvest(f->rings, found, &reset_ns, NULL);
}

/* After a good harvest: everything reset, and every page of the last `count` handed out. */
static void assert_harvested(struct fixture *f, unsigned count)
{
    assert_int_equal(kernel.next_reset, kernel.next_dirty);
    assert_int_equal(dirty_rings_take(f->rings, 0, &f->words, true), count);
    for (unsigned i = 1; i <= count; i++)
        assert_true(bitmap_test(f->words, (kernel.next_dirty - i) % NPAGES));
}

static void one_reset_is_enough(void **state)
{
    struct fixture *f = *state;
    uint64_t found;

    for (unsigned round = 0; round < 20; round++) {
        dirty(NENTRIES - RESERVED);
        assert_int_equal(harvest(f, &found), 0);
        assert_int_equal(found, NENTRIES - RESERVED);
        assert_int_equal(kernel.nresets, round + 1);
        assert_harvested(f, NENTRIES - RESERVED);
    }
    assert_int_equal(harvest(f, &found), 0);
    assert_int_equal(found, 0);
    assert_int_equal(kernel.nresets, 20);
}

/* A signal is pending, as it is for a vCPU whose ring is full while it is told to park. */
static void interrupted_resets(void **state)
{
    static const int answers[] = {0, -EINTR};
    static const unsigned before[] = {0, 1, 500};
    struct fixture *f = *state;
    uint64_t found;

    for (unsigned i = 0; i < 6; i++) {
        kernel.interrupted = answers[i % 2];
        kernel.before = before[i / 2];
        kernel.interrupts = 1 + i;
        dirty(NENTRIES - RESERVED);
        assert_int_equal(dirty_rings_harvest_cpu(f->rings, 0, &found, NULL), 0);
        assert_int_equal(found, NENTRIES - RESERVED);
        assert_harvested(f, NENTRIES - RESERVED);
    }
}

/* What was not re-protected is not passed off as clean, and the thread does not hang. */
static void resets_that_reset_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t found;

    dirty(10);
    kernel.stubborn = true;
    assert_int_equal(harvest(f, &found), -EOVERFLOW);
    assert_int_equal(harvest(f, &found), -EOVERFLOW);
}

/* A failing ioctl fails the harvest; what it left undone is done by the next. */
static void a_failing_reset(void **state)
{
    struct fixture *f = *state;
    uint64_t found;

    dirty(10);
    kernel.interrupts = 1;
    kernel.interrupted = -EIO;
    assert_int_equal(harvest(f, &found), -EIO);
    assert_int_equal(harvest(f, &found), 0);
    assert_int_equal(found, 0);
    assert_harvested(f, 10);
}

/* KVM did not stop at a full ring: the log is lost for good, and the ring goes on. */
static void a_ring_that_was_run_over(void **state)
{
    struct fixture *f = *state;
    uint64_t found;

    dirty(NENTRIES + 100);
    assert_int_equal(harvest(f, &found), -EOVERFLOW);
    assert_int_equal(found, NENTRIES);
    for (unsigned i = 0; i < 5; i++) {
        dirty(10);
        assert_int_equal(dirty_rings_harvest_cpu(f->rings, 0, &found, NULL), -EOVERFLOW);
        assert_int_equal(found, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_reset_is_enough, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interrupted_resets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resets_that_reset_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failing_reset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_that_was_run_over, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
