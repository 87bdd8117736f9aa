/* SPDX-License-Identifier: MIT
 *
 * CPUID by name, without a host: the tables, masks with what falls with them, and comparison. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/x86/cpuid_features.h"

#define SSE2_BIT    (1u << 26) /* 1.edx */
#define XSAVE_BIT   (1u << 26) /* 1.ecx */
#define AVX_BIT     (1u << 28) /* 1.ecx */
#define AVX2_BIT    (1u << 5)  /* 7.0.ebx */
#define AVX512F_BIT (1u << 16) /* 7.0.ebx */
#define AVX512DQ    (1u << 17) /* 7.0.ebx */

static struct machine_cpuid_entry *add(struct machine_description *d, uint32_t function,
                                       uint32_t index)
{
    struct machine_cpuid_entry *entry = &d->cpuid[d->ncpuid++];

    *entry = (struct machine_cpuid_entry){.function = function, .index = index};
    return entry;
}

static void make_host(struct machine_description *d)
{
    struct machine_cpuid_entry *e;

    memset(d, 0, sizeof(*d));
    e = add(d, 0, 0);
    e->eax = 0x1f;
    e->ebx = 0x756e6547;
    e = add(d, 1, 0);
    e->edx = SSE2_BIT;
    e->ecx = XSAVE_BIT | AVX_BIT;
    e = add(d, 7, 0);
    e->ebx = AVX2_BIT | AVX512F_BIT | AVX512DQ;
    e = add(d, 0xd, 0);
    e->eax = 0xe7;
    e = add(d, 0xd, 2);
    e->eax = 256;
    e->ebx = 576;
    e = add(d, 0x80000000, 0);
    e->eax = 0x80000008;
    e = add(d, 0x80000008, 0);
    e->eax = 0x302e;
}

/* Within one register a name stands for one bit, and short enough for the command line. */
static void names_are_unique(void **state)
{
    (void)state;
    for (size_t w = 0; w < cpuid_nwords; w++) {
        for (unsigned a = 0; a < 32; a++) {
            const char *name = cpuid_words[w].names[a];
            if (!name)
                continue;
            assert_true(strlen(name) < 32);
            assert_null(strpbrk(name, ", "));
            for (unsigned b = 0; b < a; b++) {
                const char *other = cpuid_words[w].names[b];
                if (other && strcmp(name, other) == 0)
                    fail_msg("%s twice", name);
            }
        }
        for (size_t v = 0; v < w; v++)
            assert_false(cpuid_words[w].function == cpuid_words[v].function &&
                         cpuid_words[w].index == cpuid_words[v].index &&
                         cpuid_words[w].reg == cpuid_words[v].reg);
    }
}

/* The positions that are easiest to get wrong, from the manuals. */
static void names_are_in_place(void **state)
{
    static const struct {
        uint32_t function, index;
        enum cpuid_register reg;
        unsigned bit;
        const char *name;
    } known[] = {
        {1, 0, CPUID_EDX, 0, "fpu"},
        {1, 0, CPUID_EDX, 26, "sse2"},
        {1, 0, CPUID_EDX, 31, "pbe"},
        {1, 0, CPUID_ECX, 5, "vmx"},
        {1, 0, CPUID_ECX, 21, "x2apic"},
        {1, 0, CPUID_ECX, 24, "tsc-deadline"},
        {1, 0, CPUID_ECX, 31, "hypervisor"},
        {7, 0, CPUID_EBX, 5, "avx2"},
        {7, 0, CPUID_EBX, 16, "avx512f"},
        {7, 0, CPUID_EBX, 31, "avx512vl"},
        {7, 0, CPUID_ECX, 16, "la57"},
        {7, 0, CPUID_ECX, 3, "pku"},
        {7, 0, CPUID_EDX, 24, "amx-tile"},
        {7, 0, CPUID_EDX, 31, "ssbd"},
        {7, 1, CPUID_EAX, 4, "avx-vnni"},
        {0xd, 0, CPUID_EAX, 9, "xcr0-pkru"},
        {0xd, 1, CPUID_EAX, 3, "xsaves"},
        {0x80000001, 0, CPUID_ECX, 2, "svm"},
        {0x80000001, 0, CPUID_ECX, 22, "topoext"},
        {0x80000001, 0, CPUID_EDX, 11, "syscall"},
        {0x80000001, 0, CPUID_EDX, 20, "nx"},
        {0x80000001, 0, CPUID_EDX, 29, "lm"},
        {0x80000007, 0, CPUID_EDX, 8, "invtsc"},
        {0x80000008, 0, CPUID_EBX, 12, "ibpb"},
        {0x40000001, 0, CPUID_EAX, 3, "kvmclock"},
        {0x40000001, 0, CPUID_EAX, 24, "kvmclock-stable-bit"},
        {7, 0, CPUID_EBX, 22, "pcommit"},
        {7, 0, CPUID_EDX, 12, "leaf 7.0 edx bit 12"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool found = false;
        for (size_t w = 0; w < cpuid_nwords; w++) {
            char buf[48];
            if (cpuid_words[w].function != known[i].function ||
                cpuid_words[w].index != known[i].index || cpuid_words[w].reg != known[i].reg)
                continue;
            assert_string_equal(cpuid_feature_name(&cpuid_words[w], known[i].bit, buf, sizeof(buf)),
                                known[i].name);
            found = true;
        }
        assert_true(found);
    }
}

static void clears_by_name(void **state)
{
    struct machine_description d;

    (void)state;
    make_host(&d);
    assert_true(cpuid_has(&d, "avx512f"));
    assert_true(cpuid_clear(&d, "avx512f"));
    assert_false(cpuid_has(&d, "avx512f"));
    assert_true(cpuid_has(&d, "avx512dq"));
    cpuid_clear_dependents(&d);
    assert_int_equal(cpuid_find(&d, 7, 0)->ebx, AVX2_BIT);
    assert_int_equal(cpuid_find(&d, 0xd, 0)->eax, 7);
    assert_true(cpuid_clear(&d, "xsave"));
    cpuid_clear_dependents(&d);
    assert_int_equal(cpuid_find(&d, 1, 0)->ecx, 0);
    assert_int_equal(cpuid_find(&d, 7, 0)->ebx, 0);
    assert_int_equal(cpuid_find(&d, 0xd, 0)->eax, 3);
    assert_int_equal(cpuid_find(&d, 1, 0)->edx, SSE2_BIT);
    /* Known, but not offered: fine. Unknown: told. */
    assert_true(cpuid_clear(&d, "amx-tile"));
    assert_false(cpuid_clear(&d, "warp-drive"));
    assert_false(cpuid_clear(&d, ""));
}

static void compares(void **state)
{
    struct machine_description wanted;
    struct machine_description host;
    struct error err = {""};

    (void)state;
    make_host(&wanted);
    make_host(&host);
    assert_int_equal(cpuid_compare(&wanted, &host, &err), 0);
    /* A host may offer more. */
    cpuid_find(&wanted, 7, 0)->ebx = AVX2_BIT;
    assert_int_equal(cpuid_compare(&wanted, &host, &err), 0);
    /* Everything that is missing is named, unnamed bits by their place. */
    make_host(&wanted);
    cpuid_find(&host, 7, 0)->ebx = AVX2_BIT;
    cpuid_find(&wanted, 7, 0)->edx = 1u << 12;
    add(&wanted, 0x80000007, 0)->edx = 1u << 8;
    assert_int_equal(cpuid_compare(&wanted, &host, &err), -ENOTSUP);
    assert_string_equal(err.text, "this host lacks CPU features: avx512f, avx512dq, "
                                  "leaf 7.0 edx bit 12, invtsc");
    /* What only describes the host is not compared. */
    make_host(&wanted);
    make_host(&host);
    add(&wanted, 0x80000002, 0)->eax = 77;
    add(&wanted, 4, 0)->eax = 77;
    add(&wanted, 0x16, 0)->eax = 77;
    assert_int_equal(cpuid_compare(&wanted, &host, &err), 0);
}

static void compares_limits_and_layout(void **state)
{
    static const struct {
        uint32_t function, index, eax;
        const char *named;
    } cases[] = {
        {0, 0, 0xd, "highest leaf 0x1f (here 0xd)"},
        {0x80000000, 0, 0x80000004, "highest extended leaf"},
        {0x80000008, 0, 0x3027, "physical address bits 0x2e (here 0x27)"},
        {0xd, 0, 0x3, "xcr0-avx, xcr0-opmask, xcr0-zmm-hi256, xcr0-hi16-zmm"},
        {0xd, 2, 512, "XSAVE component 2"},
    };
    struct machine_description wanted;
    struct machine_description host;
    struct error err = {""};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_host(&wanted);
        make_host(&host);
        cpuid_find(&host, cases[i].function, cases[i].index)->eax = cases[i].eax;
        assert_int_equal(cpuid_compare(&wanted, &host, &err), -ENOTSUP);
        if (!strstr(err.text, cases[i].named))
            fail_msg("'%s' does not name '%s'", err.text, cases[i].named);
    }
    make_host(&wanted);
    make_host(&host);
    cpuid_find(&host, 0, 0)->ebx = 0x68747541;
    assert_int_equal(cpuid_compare(&wanted, &host, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "vendor"));
}

static void a_long_list_ends_with_a_number(void **state)
{
    struct machine_description wanted;
    struct machine_description host;
    struct error err = {""};

    (void)state;
    make_host(&wanted);
    make_host(&host);
    cpuid_find(&wanted, 1, 0)->edx = UINT32_MAX;
    cpuid_find(&wanted, 1, 0)->ecx = UINT32_MAX;
    cpuid_find(&wanted, 7, 0)->ebx = UINT32_MAX;
    assert_int_equal(cpuid_compare(&wanted, &host, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, " more"));
    assert_true(strlen(err.text) < ERROR_TEXT_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(names_are_in_place),
        cmocka_unit_test(clears_by_name),
        cmocka_unit_test(compares),
        cmocka_unit_test(compares_limits_and_layout),
        cmocka_unit_test(a_long_list_ends_with_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
