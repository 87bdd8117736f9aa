/* SPDX-License-Identifier: MIT
 *
 * The machine tree: there and back, every kind of bad tree by name, and random damage. */
#include <errno.h>
#include <libfdt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guest/abi.h"
#include "vmm/machine_tree.h"

#define BIT_FLIPS 20000

static void fill(struct machine_description *d)
{
    memset(d, 0, sizeof(*d));
    d->memory_bytes = 5ull << 30;
    d->ncpus = 3;
    d->framebuffer = true;
    d->exit_port = GUEST_EXIT_PORT_DEFAULT;
    d->tsc_khz = 2100000;
    strcpy(d->bootargs, "memcheck pages=10 seed=7");
    d->ncpuid = 40;
    for (unsigned i = 0; i < d->ncpuid; i++)
        d->cpuid[i] = (struct machine_cpuid_entry){i / 2, i % 2, i % 2, i * 3, ~i, i << 20, 7};
}

static void *must_build(const struct machine_description *d, size_t *bytes)
{
    struct error err = {""};
    void *fdt = NULL;

    if (machine_tree_build(d, &fdt, bytes, &err))
        fail_msg("%s", err.text);
    return fdt;
}

static void round_trip(const struct machine_description *d)
{
    struct machine_description back;
    struct error err = {""};
    size_t bytes = 0;
    size_t again_bytes = 0;
    void *fdt = must_build(d, &bytes);
    void *again;
    /* A tree may lie at any address. */
    uint8_t *moved = malloc(bytes + 1);

    assert_non_null(moved);
    memcpy(moved + 1, fdt, bytes);
    if (machine_tree_parse(moved + 1, bytes, &back, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(&back, d, sizeof(back));
    again = must_build(&back, &again_bytes);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, fdt, bytes);
    free(moved);
    free(again);
    free(fdt);
}

static void there_and_back(void **state)
{
    static const uint64_t sizes[] = {
        2ull << 20,           64ull << 20, 0xc0000000ull - 4096, 0xc0000000ull,
        0xc0000000ull + 4096, 4ull << 30,  (5ull << 30) + 4096,  4ull << 40};
    struct machine_description d;

    (void)state;
    fill(&d);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        d.memory_bytes = sizes[i];
        round_trip(&d);
    }
    d.framebuffer = false;
    round_trip(&d);
    for (d.ncpus = 1; d.ncpus <= MACHINE_MAX_CPUS; d.ncpus++)
        round_trip(&d);
    d.ncpus = 1;
    d.ncpuid = 0;
    d.tsc_khz = 0;
    d.exit_port = 0xfffc;
    memset(d.bootargs, 0, sizeof(d.bootargs));
    memset(d.cpuid, 0, sizeof(d.cpuid));
    round_trip(&d);
    d.ncpuid = MACHINE_CPUID_MAX;
    for (unsigned i = 0; i < d.ncpuid; i++)
        d.cpuid[i].function = i;
    memset(d.bootargs, 'x', MACHINE_BOOTARGS_MAX);
    d.bootargs[MACHINE_BOOTARGS_MAX] = '\0';
    round_trip(&d);
}

static void refuses_bad_descriptions(void **state)
{
    static const uint64_t sizes[] = {
        0, 4096, (2ull << 20) - 4096, (2ull << 20) + 1, UINT64_MAX, (4ull << 40) + 4096};
    static const uint16_t ports[] = {0,     0x1e,  0x40,  0x5d,  0x3f5,
                                     0x3ff, 0x5dd, 0x5ef, 0xcf9, 0xfffd};
    struct machine_description d;
    struct error err = {""};
    void *fdt = NULL;
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(&d);
        d.memory_bytes = sizes[i];
        assert_int_equal(machine_tree_build(&d, &fdt, &bytes, &err), -EINVAL);
        assert_non_null(strstr(err.text, "/memory@0"));
    }
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        fill(&d);
        d.exit_port = ports[i];
        assert_int_equal(machine_tree_build(&d, &fdt, &bytes, &err), -EINVAL);
        assert_non_null(strstr(err.text, "/exit"));
    }
    fill(&d);
    d.ncpus = MACHINE_MAX_CPUS + 1;
    assert_int_equal(machine_tree_build(&d, &fdt, &bytes, &err), -EINVAL);
    fill(&d);
    memset(d.bootargs, 'x', sizeof(d.bootargs));
    assert_int_equal(machine_tree_build(&d, &fdt, &bytes, &err), -EINVAL);
    fill(&d);
    d.cpuid[3] = d.cpuid[4];
    assert_int_equal(machine_tree_build(&d, &fdt, &bytes, &err), -EINVAL);
    assert_non_null(strstr(err.text, "twice"));
}

/* One change to a good tree, and what the refusal must name. */
struct damage {
    const char *node;
    const char *property; /* NULL: the node itself */
    const void *value;    /* NULL: delete */
    int bytes;
    const char *named;
};

#define CELL(n)  "\0\0\0" n
#define ZEROS16  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define FB       "/framebuffer@e0000000"
#define GAP_SIZE "\0\0\0\0\xc0\0\0\0"

static const struct damage damages[] = {
    {"/", "compatible", "pageferry,machine-v2", 21, "/: compatible"},
    {"/", "compatible", NULL, 0, "compatible: missing"},
    {"/", "#size-cells", CELL("\1"), 4, "#size-cells"},
    {"/", "model", "x", 2, "model: unknown property"},
    {"/chosen", NULL, NULL, 0, "missing node chosen"},
    {"/chosen", "bootargs", NULL, 0, "/chosen: bootargs: missing"},
    {"/chosen", "bootargs", "abc", 3, "/chosen: bootargs: not one string"},
    {"/chosen", "bootargs", "a\0b", 4, "/chosen: bootargs: not one string"},
    {"/chosen", "bootargs", "", 0, "/chosen: bootargs: not one string"},
    {"/chosen", "stdout-path", "/serial@2f8", 12, "/chosen: stdout-path"},
    {"/memory@0", "reg", CELL("\0"), 4, "/memory@0: reg"},
    {"/memory@0", "reg", ZEROS16, 16, "/memory@0: reg"},
    {"/memory@0", "reg", "\0\0\0\0\0\0\0\0\0\0\0\0\xc0\0\x10\0", 16, "32-bit gap"},
    {"/memory@0", "reg", "\0\0\0\0\0\0\x10\0\0\0\0\0\x10\0\0\0", 16, "does not start at 0"},
    {"/memory@0", "reg",
     "\0\0\0\0\0\0\0\0" GAP_SIZE "\0\0\0\1\0\0\0\0\xff\xff\xff\xff\xff\xff\xf0\0", 32,
     "/memory@0: reg"},
    {"/memory@0", "reg", "\0\0\0\0\0\0\0\0" GAP_SIZE "\0\0\0\2\0\0\0\0\0\0\0\0\x10\0\0\0", 32,
     "/memory@0: reg"},
    {"/memory@0", "device_type", "mem", 4, "/memory@0: device_type"},
    {"/cpus", NULL, NULL, 0, "missing node cpus"},
    {"/cpus", "pageferry,tsc-khz", CELL("\1"), 4, "pageferry,tsc-khz"},
    {"/cpus", "pageferry,tsc-khz", "\0\0\0\1\0\0\0\0", 8, "pageferry,tsc-khz"},
    {"/cpus", "pageferry,cpuid", ZEROS16, 16, "/cpus: pageferry,cpuid"},
    {"/cpus", "pageferry,cpuid", NULL, 0, "pageferry,cpuid: missing"},
    {"/cpus/cpu@1", NULL, NULL, 0, "/cpus: vCPU numbers have a gap"},
    {"/cpus/cpu@1", "reg", CELL("\0"), 4, "/cpus/cpu@1: reg"},
    {"/cpus/cpu@1", "reg", CELL("\5"), 4, "/cpus/cpu@1: reg"},
    {"/cpus/cpu@1", "reg", CELL("\x10"), 4, "/cpus/cpu@1: reg: out of range"},
    {"/cpus/cpu@1", "reg", "\xff\xff\xff\xff", 4, "/cpus/cpu@1: reg: out of range"},
    {"/cpus/cpu@1", "enable-method", "psci", 5, "enable-method: unknown property"},
    {"/serial@3f8", "reg", "\0\0\2\xf8\0\0\0\x8", 8, "/serial@3f8: reg"},
    {"/serial@3f8", "interrupts", CELL("\3"), 4, "/serial@3f8: interrupts"},
    {"/serial@3f8", "clock-frequency", "", 0, "/serial@3f8: clock-frequency"},
    {"/exit@f4", "reg", "\0\0\0\xf8\0\0\0\4", 8, "/exit@f4: reg: not the node's address"},
    {"/exit@f4", "reg", "\0\1\0\xf4\0\0\0\4", 8, "/exit@f4: reg"},
    {"/exit@f4", "reg", "\0\0\0\xf4\0\0\0\2", 8, "/exit@f4: reg"},
    {"/exit@f4", NULL, NULL, 0, "missing node exit"},
    {"/probe@5e0", "pageferry,mmio", ZEROS16, 16, "/probe@5e0: pageferry,mmio"},
    {"/probe@5e0", "compatible", "pageferry,probe2", 17, "/probe@5e0: compatible"},
    {FB, "compatible", "pageferry,framebuffer2", 23, FB ": compatible"},
    {FB, "compatible", NULL, 0, FB ": compatible: missing"},
    {FB, "reg", NULL, 0, FB ": reg: missing"},
    {FB, "reg", ZEROS16, 16, FB ": reg: not the range"},
    {FB, "reg", "\0\0\0\0\xe0\0\0\0", 8, FB ": reg: not the range"},
    {FB, "reg", "\0\0\0\0\xd0\0\0\0\0\0\0\0\1\0\0\0", 16, FB ": reg: not the range"},
    {FB, "reg", "\0\0\0\1\xe0\0\0\0\0\0\0\0\1\0\0\0", 16, FB ": reg: not the range"},
    {FB, "reg", "\0\0\0\0\xe0\0\0\0\0\0\0\0\1\0\x10\0", 16, FB ": reg: not the range"},
    {FB, "reg", "\0\0\0\0\xe0\0\0\0\xff\xff\xff\xff\1\0\0\0", 16, FB ": reg: not the range"},
    {FB, "reg", "\0\0\0\0\xe0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 20, FB ": reg: not the range"},
    {FB, "width", CELL("\1"), 4, FB ": width: unknown property"},
};

static void *open_tree(const struct machine_description *d)
{
    size_t bytes = 0;
    void *fdt = must_build(d, &bytes);
    void *open = malloc(bytes + 4096);

    assert_non_null(open);
    assert_int_equal(fdt_open_into(fdt, open, (int)bytes + 4096), 0);
    free(fdt);
    return open;
}

static int parse_packed(void *fdt, struct error *err)
{
    struct machine_description back;

    assert_int_equal(fdt_pack(fdt), 0);
    return machine_tree_parse(fdt, fdt_totalsize(fdt), &back, err);
}

static void names_what_is_wrong(void **state)
{
    struct machine_description d;

    (void)state;
    fill(&d);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        const struct damage *c = &damages[i];
        struct error err = {""};
        void *fdt = open_tree(&d);
        int node = fdt_path_offset(fdt, c->node);

        assert_true(node >= 0);
        if (!c->property)
            assert_int_equal(fdt_del_node(fdt, node), 0);
        else if (!c->value)
            assert_int_equal(fdt_delprop(fdt, node, c->property), 0);
        else
            assert_int_equal(fdt_setprop(fdt, node, c->property, c->value, c->bytes), 0);
        if (parse_packed(fdt, &err) != -EPROTO || !strstr(err.text, c->named))
            fail_msg("case %zu: '%s' does not name '%s'", i, err.text, c->named);
        free(fdt);
    }
}

static void knows_optional_from_unknown(void **state)
{
    struct machine_description d;
    struct error err = {""};
    void *fdt;
    int node;

    (void)state;
    fill(&d);
    fdt = open_tree(&d);
    assert_int_equal(fdt_setprop_u32(fdt, 0, "opt,colour", 3), 0);
    assert_true(fdt_add_subnode(fdt, fdt_path_offset(fdt, "/cpus"), "opt,cache") >= 0);
    assert_int_equal(parse_packed(fdt, &err), 0);
    free(fdt);

    fdt = open_tree(&d);
    assert_true(fdt_add_subnode(fdt, 0, "virtio@0") >= 0);
    assert_int_equal(parse_packed(fdt, &err), -EPROTO);
    assert_non_null(strstr(err.text, "/virtio@0: unknown node"));
    free(fdt);

    fdt = open_tree(&d);
    node = fdt_add_subnode(fdt, 0, "exit@f8");
    assert_true(node >= 0);
    assert_int_equal(fdt_setprop_string(fdt, node, "compatible", "pageferry,exit-port"), 0);
    assert_int_equal(fdt_setprop_u64(fdt, node, "reg", 0xf800000004), 0);
    assert_int_equal(parse_packed(fdt, &err), -EPROTO);
    assert_non_null(strstr(err.text, "a second node of this kind"));
    free(fdt);

    /* The one node that may be there or not. */
    fdt = open_tree(&d);
    assert_int_equal(fdt_del_node(fdt, fdt_path_offset(fdt, FB)), 0);
    assert_int_equal(parse_packed(fdt, &err), 0);
    free(fdt);
    fdt = open_tree(&d);
    node = fdt_add_subnode(fdt, 0, "framebuffer@e1000000");
    assert_true(node >= 0);
    assert_int_equal(fdt_setprop_string(fdt, node, "compatible", "pageferry,framebuffer"), 0);
    assert_int_equal(fdt_appendprop_u64(fdt, node, "reg", FRAMEBUFFER_GPA), 0);
    assert_int_equal(fdt_appendprop_u64(fdt, node, "reg", FRAMEBUFFER_BYTES), 0);
    assert_int_equal(fdt_set_name(fdt, node, &FB[1]), 0);
    assert_int_equal(parse_packed(fdt, &err), -EPROTO);
    assert_non_null(strstr(err.text, "a second node of this kind"));
    free(fdt);
    fdt = open_tree(&d);
    assert_int_equal(fdt_set_name(fdt, fdt_path_offset(fdt, FB), "framebuffer@e1000000"), 0);
    assert_int_equal(parse_packed(fdt, &err), -EPROTO);
    assert_non_null(strstr(err.text, "reg: not the node's address"));
    free(fdt);

    /* A peer's name must not reach the terminal as it is. */
    fdt = open_tree(&d);
    assert_int_equal(fdt_setprop_u32(fdt, 0, "\33[2J\n", 3), 0);
    assert_int_equal(parse_packed(fdt, &err), -EPROTO);
    assert_non_null(strstr(err.text, "/: ?[2J?: unknown property"));
    free(fdt);
}

static void refuses_bad_containers(void **state)
{
    struct machine_description d;
    struct machine_description back;
    struct error err = {""};
    size_t bytes = 0;
    uint8_t *fdt;
    uint8_t *big = calloc(1, MACHINE_TREE_MAX_BYTES + 1);

    (void)state;
    assert_non_null(big);
    fill(&d);
    fdt = must_build(&d, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        /* An exact copy, so that a sanitizer sees a read past the end. */
        uint8_t *part = malloc(cut ? cut : 1);
        assert_non_null(part);
        memcpy(part, fdt, cut);
        assert_int_equal(machine_tree_parse(part, cut, &back, &err), -EPROTO);
        free(part);
    }
    memcpy(big, fdt, bytes);
    assert_int_equal(machine_tree_parse(big, bytes + 1, &back, &err), -EPROTO);
    assert_int_equal(machine_tree_parse(big, MACHINE_TREE_MAX_BYTES + 1, &back, &err), -EPROTO);
    free(big);
    free(fdt);
}

/* Whatever a bit flip does, the parser returns, and what it accepts can be built again. */
static void survives_bit_flips(void **state)
{
    struct machine_description d;
    struct machine_description back;
    uint32_t random = 1;
    size_t bytes = 0;
    uint8_t *fdt;
    uint8_t *copy;
    unsigned accepted = 0;

    (void)state;
    fill(&d);
    fdt = must_build(&d, &bytes);
    copy = malloc(bytes);
    assert_non_null(copy);
    for (int i = 0; i < BIT_FLIPS; i++) {
        memcpy(copy, fdt, bytes);
        for (int flips = 0; flips <= i % 4; flips++) {
            random = random * 1664525u + 1013904223u;
            copy[(random >> 8) % bytes] ^= (uint8_t)(1u << (random >> 5 & 7));
        }
        if (machine_tree_parse(copy, bytes, &back, NULL) == 0) {
            size_t again_bytes;
            free(must_build(&back, &again_bytes));
            accepted++;
        }
    }
    print_message("%u of %d damaged trees were still valid\n", accepted, BIT_FLIPS);
    free(copy);
    free(fdt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),         cmocka_unit_test(refuses_bad_descriptions),
        cmocka_unit_test(names_what_is_wrong),    cmocka_unit_test(knows_optional_from_unknown),
        cmocka_unit_test(refuses_bad_containers), cmocka_unit_test(survives_bit_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
