/* SPDX-License-Identifier: MIT
 *
 * The VM that only stores: where, what, from which ring, and how it ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kvm/test_writer.h"

#define NCPUS 2

static const uint64_t slots[] = {1, 65, 700};
#define NSLOTS (sizeof(slots) / sizeof(slots[0]))

struct fixture {
    struct kvm kvm;
    struct writer_vm *vm;
    unsigned privilege;
};

static void set_up(struct fixture *f, unsigned privilege)
{
    const struct writer_vm_config config = {.npages = slots,
                                            .nslots = NSLOTS,
                                            .backing = MEMORY_ANON,
                                            .ncpus = NCPUS,
                                            .privilege = privilege,
                                            .max_list = 100};
    struct error err = {""};

    if (kvm_open(&f->kvm, &err) || writer_vm_open(&f->vm, &f->kvm, &config, &err))
        fail_msg("%s", err.text);
    f->privilege = privilege;
}

static void tear_down(struct fixture *f)
{
    writer_vm_close(f->vm);
    kvm_close(&f->kvm);
}

static void must(int result, const struct error *err)
{
    if (result)
        fail_msg("%d: %s", result, err->text);
}

static uint64_t word(const struct fixture *f, unsigned slot, uint64_t page, unsigned cpu)
{
    const uint64_t *at =
        memory_at(writer_vm_memory(f->vm), writer_vm_gpa(f->vm, slot, page) + 8ull * cpu, 8);

    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void set_lists(struct fixture *f)
{
    struct error err = {""};
    gpa_t pages[50];

    for (unsigned cpu = 0; cpu < NCPUS; cpu++) {
        for (uint64_t i = 0; i < 50; i++)
            pages[i] = writer_vm_gpa(f->vm, 2, 14 * i + cpu);
        must(writer_vm_set_list(f->vm, cpu, pages, 50, &err), &err);
    }
}

static void stores_where_it_is_told(void **state)
{
    struct writer_vm_result result;
    struct error err = {""};
    struct fixture f;

    set_up(&f, *(const unsigned *)*state);
    set_lists(&f);
    for (unsigned round = 1; round < 5; round++) {
        must(writer_vm_hold(f.vm, round % 2, &err), &err);
        must(writer_vm_write(f.vm, 1000 + round, &result, &err), &err);
        assert_int_equal(result.stores, 100);
        assert_int_equal(writer_vm_stores(f.vm, 1), 50 * round);
        for (uint64_t page = 0; page < 700; page++) {
            assert_int_equal(word(&f, 2, page, 0), page % 14 == 0 ? 1000 + round : 0);
            assert_int_equal(word(&f, 2, page, 1), page % 14 == 1 ? 1000 + round : 0);
        }
    }
    assert_int_equal(word(&f, 1, 64, 0), 0);
    tear_down(&f);
}

static void empty_lists_are_soon_through(void **state)
{
    struct writer_vm_result result;
    struct error err = {""};
    struct fixture f;

    (void)state;
    set_up(&f, 3);
    must(writer_vm_write(f.vm, 1, &result, &err), &err);
    assert_int_equal(result.stores, 0);
    must(writer_vm_hold(f.vm, false, &err), &err);
    assert_int_equal(writer_vm_roam(f.vm, &err), -EINVAL);
    tear_down(&f);
}

static void roams_until_it_settles(void **state)
{
    struct error err = {""};
    struct fixture f;
    uint64_t largest = 0;

    set_up(&f, *(const unsigned *)*state);
    set_lists(&f);
    must(writer_vm_hold(f.vm, false, &err), &err);
    for (int again = 0; again < 3; again++) {
        must(writer_vm_roam(f.vm, &err), &err);
        must(writer_vm_await(f.vm, 500, &err), &err);
        must(writer_vm_settle(f.vm, &err), &err);
        must(writer_vm_hold(f.vm, again % 2, &err), &err);
        must(writer_vm_write(f.vm, 1, NULL, &err), &err);
        must(writer_vm_hold(f.vm, false, &err), &err);
    }
    must(writer_vm_roam(f.vm, &err), &err);
    must(writer_vm_await(f.vm, 500, &err), &err);
    must(writer_vm_settle(f.vm, &err), &err);
    /* The last store of all is somewhere, no page holds a later one, and none is alike. */
    for (uint64_t page = 0; page < 700; page += 14) {
        uint64_t number = word(&f, 2, page, 0);

        assert_true(number != largest);
        largest = number > largest ? number : largest;
    }
    assert_int_equal(largest, writer_vm_stores(f.vm, 0));
    assert_int_equal(word(&f, 2, 2, 0), 0);
    tear_down(&f);
}

static void its_end_has_a_reason(void **state)
{
    const gpa_t nowhere[] = {0x1000};
    struct error err = {""};
    struct fixture f;

    set_up(&f, *(const unsigned *)*state);
    set_lists(&f);
    must(writer_vm_set_list(f.vm, 1, nowhere, 1, &err), &err);
    assert_int_equal(writer_vm_write(f.vm, 1, NULL, &err), -EIO);
    assert_non_null(strstr(err.text, "vCPU 1"));
    err.text[0] = '\0';
    assert_int_equal(writer_vm_write(f.vm, 1, NULL, &err), -EIO);
    assert_int_equal(writer_vm_hold(f.vm, false, &err), -EIO);
    assert_int_equal(writer_vm_roam(f.vm, &err), -EIO);
    assert_non_null(strstr(err.text, "vCPU 1"));
    tear_down(&f);
}

static void refuses_what_it_cannot_be(void **state)
{
    const uint64_t none[] = {0}, some[] = {4};
    const struct writer_vm_config good = {
        .npages = some, .nslots = 1, .backing = MEMORY_ANON, .ncpus = 1, .max_list = 4};
    struct writer_vm_config bad[6] = {good, good, good, good, good, good};
    struct writer_vm *vm = NULL;
    struct error err = {""};
    struct fixture f;
    gpa_t pages[101] = {0};

    (void)state;
    set_up(&f, 3);
    bad[0].nslots = 0;
    bad[1].npages = none;
    bad[2].ncpus = WRITER_VM_MAX_CPUS + 1;
    bad[3].privilege = 1;
    bad[4].max_list = 0;
    bad[5].dirty_ring_entries = 1000;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        assert_true(writer_vm_open(&vm, &f.kvm, &bad[i], &err) < 0);
        assert_null(vm);
        assert_true(err.text[0] != '\0');
    }
    assert_int_equal(writer_vm_set_list(f.vm, 0, pages, 101, &err), -EINVAL);
    assert_int_equal(writer_vm_set_list(f.vm, NCPUS, pages, 1, &err), -EINVAL);
    assert_int_equal(writer_vm_pin(f.vm, 0, -1, &err), -EINVAL);
    must(writer_vm_pin(f.vm, 0, 0, &err), &err);
    tear_down(&f);
}

int main(void)
{
    static unsigned rings[] = {3, 0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(stores_where_it_is_told, &rings[0]),
        cmocka_unit_test_prestate(stores_where_it_is_told, &rings[1]),
        cmocka_unit_test_prestate(roams_until_it_settles, &rings[0]),
        cmocka_unit_test_prestate(roams_until_it_settles, &rings[1]),
        cmocka_unit_test_prestate(its_end_has_a_reason, &rings[0]),
        cmocka_unit_test_prestate(its_end_has_a_reason, &rings[1]),
        cmocka_unit_test(empty_lists_are_soon_through),
        cmocka_unit_test(refuses_what_it_cannot_be),
    };

    test_writer_require_kvm();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
