/* SPDX-License-Identifier: MIT
 *
 * Saved states that are not what they should be: refused with a line, whatever is wrong. */
#include <errno.h>
#include <libfdt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_guest.h"
#include "test_times.h"
#include "vmm/base/size.h"

#define MEMORY_BYTES (16 * SIZE_MIB)
#define ROOM         4096
#define FLIPS        400

static struct kvm kvm;
static void *good;
static size_t good_bytes;

/* A state of a guest in full swing. */
static int save_one(void **state)
{
    struct machine *machine = test_guest_create(&kvm, 1, MEMORY_BYTES, "memcheck set=1M", true);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_start(machine, &err), 0);
    test_guest_wait_beats(machine, 1);
    assert_int_equal(machine_pause(machine, &err), 0);
    assert_int_equal(machine_save(machine, &good, &good_bytes, &err), 0);
    machine_destroy(machine);
    return 0;
}

static int free_one(void **state)
{
    (void)state;
    free(good);
    return 0;
}

static struct machine *empty_machine(unsigned ncpus)
{
    return test_guest_create(&kvm, ncpus, MEMORY_BYTES, "memcheck set=1M", false);
}

/* A copy with room for changes. */
static void *copy_of_good(void)
{
    void *copy = malloc(good_bytes + ROOM);

    assert_non_null(copy);
    assert_int_equal(fdt_open_into(good, copy, (int)(good_bytes + ROOM)), 0);
    return copy;
}

static void expect(const void *fdt, size_t bytes, int expected, const char *line)
{
    struct machine *machine = empty_machine(1);
    struct error err = {0};

    assert_int_equal(machine_restore(machine, fdt, bytes, &err), expected);
    if (expected && !strstr(err.text, line))
        fail_msg("\"%s\" does not say \"%s\"", err.text, line);
    assert_int_equal(machine_state(machine), expected ? MACHINE_CREATED : MACHINE_PAUSED);
    machine_destroy(machine);
}

static void expect_changed(void *fdt, int expected, const char *line)
{
    expect(fdt, fdt_totalsize(fdt), expected, line);
    free(fdt);
}

static void test_good(void **state)
{
    (void)state;
    expect(good, good_bytes, 0, "");
}

static void test_truncated(void **state)
{
    struct machine *machine = empty_machine(1);

    (void)state;
    for (size_t bytes = 0; bytes < good_bytes; bytes += bytes < 64 ? 1 : 97) {
        void *copy = malloc(bytes + 1); /* so that a sanitizer sees every byte too far */
        struct error err = {0};

        assert_non_null(copy);
        memcpy(copy, good, bytes);
        assert_int_equal(machine_restore(machine, copy, bytes, &err), -EPROTO);
        assert_true(err.text[0] != '\0');
        free(copy);
    }
    machine_destroy(machine);
}

/* Some flips make another valid state, which is accepted: it must only not break anything here. */
static void test_bit_flips(void **state)
{
    struct machine *machine = empty_machine(1);
    const unsigned flips = test_times(FLIPS);
    uint64_t random = 1;
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < flips; i++) {
        uint8_t *copy = malloc(good_bytes);
        struct error err = {0};
        int ret;

        assert_non_null(copy);
        memcpy(copy, good, good_bytes);
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        copy[(random >> 32) % good_bytes] ^= (uint8_t)(1u << (random >> 29 & 7));
        ret = machine_restore(machine, copy, good_bytes, &err);
        if (ret) {
            refused++;
            assert_true(err.text[0] != '\0');
        }
        if (machine_state(machine) != MACHINE_CREATED) {
            machine_destroy(machine);
            machine = empty_machine(1);
        }
        free(copy);
    }
    assert_true(refused > 0 && refused < flips);
    machine_destroy(machine);
}

static void test_unknown(void **state)
{
    void *copy = copy_of_good();

    (void)state;
    assert_int_equal(fdt_setprop_u32(copy, fdt_path_offset(copy, "/serial"), "baud", 1), 0);
    expect_changed(copy, -EPROTO, "/serial has an unknown property baud");

    copy = copy_of_good();
    assert_int_equal(fdt_setprop_u32(copy, fdt_path_offset(copy, "/cpu@0"), "opt,baud", 1), 0);
    expect_changed(copy, 0, "");

    copy = copy_of_good();
    assert_true(fdt_add_subnode(copy, 0, "floppy") > 0);
    expect_changed(copy, -EPROTO, "unknown node floppy");

    copy = copy_of_good();
    assert_true(fdt_add_subnode(copy, fdt_path_offset(copy, "/pit"), "floppy") > 0);
    expect_changed(copy, -EPROTO, "unknown node floppy");

    copy = copy_of_good();
    assert_int_equal(fdt_setprop_string(copy, 0, "compatible", "pageferry,state-v2"), 0);
    expect_changed(copy, -EPROTO, "compatible");
}

/* Every property is needed, at its size. */
static void test_every_property(void **state)
{
    struct machine *machine = empty_machine(1);
    const uint8_t surplus[17] = {0}; /* no multiple of anything */
    unsigned seen = 0;
    int node, property;

    (void)state;
    for (node = fdt_next_node(good, -1, NULL); node >= 0; node = fdt_next_node(good, node, NULL)) {
        fdt_for_each_property_offset(property, good, node)
        {
            const char *name;
            void *copy = copy_of_good();
            struct error err = {0};

            assert_non_null(fdt_getprop_by_offset(good, property, &name, NULL));
            seen++;
            assert_int_equal(fdt_appendprop(copy, node, name, surplus, sizeof(surplus)), 0);
            if (!machine_restore(machine, copy, fdt_totalsize(copy), &err))
                fail_msg("%s: %zu bytes too many are accepted", name, sizeof(surplus));
            assert_non_null(strstr(err.text, name));
            free(copy);
        }
    }
    assert_true(seen > 100);
    machine_destroy(machine);
}

static void test_missing(void **state)
{
    static const char *const nodes[] = {"/cpu@0",  "/serial",    "/probe", "/pit",
                                        "/ioapic", "/pic-slave", "/clock", "/reset"};
    void *copy;

    (void)state;
    for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        copy = copy_of_good();
        assert_int_equal(fdt_del_node(copy, fdt_path_offset(copy, nodes[i])), 0);
        expect_changed(copy, -EPROTO, nodes[i]);
    }
    copy = copy_of_good();
    assert_int_equal(fdt_delprop(copy, fdt_path_offset(copy, "/cpu@0"), "rip"), 0);
    expect_changed(copy, -EPROTO, "/cpu@0 has no property rip");
}

static void test_too_large(void **state)
{
    void *copy = copy_of_good();

    (void)state;
    assert_int_equal(fdt_setprop_u32(copy, fdt_path_offset(copy, "/cpu@0"), "interrupt-nr", 256),
                     0);
    expect_changed(copy, -EPROTO, "interrupt-nr");
}

static void test_vcpu_count(void **state)
{
    struct machine *machine = empty_machine(2);
    struct error err = {0};

    (void)state;
    assert_int_equal(machine_restore(machine, good, good_bytes, &err), -EPROTO);
    assert_non_null(strstr(err.text, "vCPU"));
    machine_destroy(machine);
}

/* An MSR that no host has: 0 is what it would be anyway, another value is refused by name. */
static void test_foreign_msr(void **state)
{
    void *copy = copy_of_good();
    int node = fdt_path_offset(copy, "/cpu@0");

    (void)state;
    assert_int_equal(fdt_appendprop_u32(copy, node, "msrs", 0x12345), 0);
    assert_int_equal(fdt_appendprop_u64(copy, node, "msrs", 0), 0);
    expect_changed(copy, 0, "");
    copy = copy_of_good();
    assert_int_equal(fdt_appendprop_u32(copy, node, "msrs", 0x12345), 0);
    assert_int_equal(fdt_appendprop_u64(copy, node, "msrs", 7), 0);
    expect_changed(copy, -ENOTSUP, "MSR 0x12345");
}

/* Which no guest is offered, and which KVM would take. */
static void test_nested(void **state)
{
    static const struct {
        const char *property, *line;
        uint64_t bit;
    } ways[] = {{"efer", "SVM", 0x1000}, {"cr4", "VMX", 0x2000}};

    (void)state;
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *copy = copy_of_good();
        int node = fdt_path_offset(copy, "/cpu@0"), bytes;
        const void *found = fdt_getprop(copy, node, ways[i].property, &bytes);
        fdt64_t value;

        assert_int_equal(bytes, sizeof(value));
        memcpy(&value, found, sizeof(value));
        assert_int_equal(fdt_setprop_inplace_u64(copy, node, ways[i].property,
                                                 fdt64_to_cpu(value) | ways[i].bit),
                         0);
        expect_changed(copy, -ENOTSUP, ways[i].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bit_flips),      cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_every_property), cmocka_unit_test(test_missing),
        cmocka_unit_test(test_too_large),      cmocka_unit_test(test_vcpu_count),
        cmocka_unit_test(test_foreign_msr),    cmocka_unit_test(test_nested),
    };
    int failed;

    test_guest_open_kvm(&kvm);
    failed = cmocka_run_group_tests(tests, save_one, free_one);
    kvm_close(&kvm);
    return failed;
}
