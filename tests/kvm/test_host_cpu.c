/* SPDX-License-Identifier: MIT
 *
 * CPUID on the host at hand: what is described can be honoured here, masks are obeyed, and each
 * vCPU is told its own place. */
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

#include "tests/kvm/test_guest.h"
#include "vmm/x86/cpuid.h"
#include "vmm/x86/cpuid_features.h"

#define NCPUS 3

static void describe(const struct kvm *kvm, const char *spec, struct machine_description *d)
{
    struct error err = {""};

    memset(d, 0, sizeof(*d));
    d->ncpus = NCPUS;
    d->memory_bytes = 64ull << 20;
    d->exit_port = 0xf4;
    if (cpuid_describe_host(kvm, spec, d, &err))
        fail_msg("%s", err.text);
}

static void describes_and_accepts_itself(void **state)
{
    const struct kvm *kvm = *state;
    struct machine_description d;
    struct machine_description back;
    struct error err = {""};
    size_t bytes = 0;
    void *fdt = NULL;

    describe(kvm, "host", &d);
    assert_true(cpuid_has(&d, "hypervisor"));
    assert_true(cpuid_has(&d, "lm"));
    assert_false(cpuid_has(&d, "vmx") || cpuid_has(&d, "svm") || cpuid_has(&d, "kvm-steal-time"));
    if (cpuid_check(kvm, &d, &err))
        fail_msg("%s", err.text);
    /* It fits the tree, the way it travels. */
    if (machine_tree_build(&d, &fdt, &bytes, &err) || machine_tree_parse(fdt, bytes, &back, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(&back, &d, sizeof(d));
    free(fdt);
    /* Wherever the question is asked, the answer is the same. */
    describe(kvm, "host", &back);
    assert_memory_equal(&back, &d, sizeof(d));
}

static void obeys_masks(void **state)
{
    static const char *const bad[] = {
        "",          "qemu64",         "hostess",
        "host,",     "host,-",         "host,x",
        "-x",        "host,-warp",     "host,-x,-",
        "host,+avx", "host,-sse2,avx", "host,-a-very-long-name-that-fits-nothing"};
    const struct kvm *kvm = *state;
    struct machine_description d;

    describe(kvm, "host,-sse2,-nx", &d);
    assert_false(cpuid_has(&d, "sse2") || cpuid_has(&d, "nx"));
    assert_true(cpuid_has(&d, "lm"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {""};
        assert_int_equal(cpuid_describe_host(kvm, bad[i], &d, &err), -EINVAL);
        assert_true(err.text[0] != '\0');
    }
}

static void names_what_the_host_lacks(void **state)
{
    const struct kvm *kvm = *state;
    struct machine_description d;
    struct error err = {""};

    describe(kvm, "host", &d);
    cpuid_find(&d, 7, 0)->ebx |= 1u << 22;         /* pcommit: no CPU ever had it */
    cpuid_find(&d, 0x40000001, 0)->eax |= 1u << 5; /* steal time: never offered here */
    assert_int_equal(cpuid_check(kvm, &d, &err), -ENOTSUP);
    assert_string_equal(err.text, "this host lacks CPU features: pcommit, kvm-steal-time");
}

static const struct kvm_cpuid_entry2 *find(const struct kvm_cpuid2 *cpuid, uint32_t function,
                                           uint32_t index)
{
    for (uint32_t i = 0; i < cpuid->nent; i++) {
        if (cpuid->entries[i].function == function && cpuid->entries[i].index == index)
            return &cpuid->entries[i];
    }
    fail_msg("leaf 0x%x index %u is missing", function, index);
    return NULL;
}

static void check_place(const struct kvm_cpuid2 *cpuid, unsigned cpu)
{
    const struct kvm_cpuid_entry2 *e = find(cpuid, 1, 0);

    assert_int_equal(e->ebx >> 24, cpu);
    assert_int_equal(e->ebx >> 16 & 0xff, NCPUS);
    assert_true(e->edx & 1u << 28);
    if (find(cpuid, 0, 0)->eax < 0xb)
        return;
    e = find(cpuid, 0xb, 0);
    assert_int_equal(e->eax, 0);
    assert_int_equal(e->ebx, 1);
    assert_int_equal(e->ecx, 0x100);
    assert_int_equal(e->edx, cpu);
    e = find(cpuid, 0xb, 1);
    assert_int_equal(e->eax, 2); /* three cores need two bits */
    assert_int_equal(e->ebx, NCPUS);
    assert_int_equal(e->ecx, 0x201);
    assert_int_equal(e->edx, cpu);
    assert_int_equal(find(cpuid, 0xb, 2)->ecx, 2);
}

static void places_each_vcpu(void **state)
{
    const struct kvm *kvm = *state;
    struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + 300 * sizeof(cpuid->entries[0]));
    struct machine_description d;
    struct error err = {""};
    int vm = ioctl(kvm->fd, KVM_CREATE_VM, 0);

    assert_non_null(cpuid);
    assert_true(vm >= 0);
    assert_int_equal(ioctl(vm, KVM_CREATE_IRQCHIP, 0), 0);
    describe(kvm, "host", &d);
    for (unsigned cpu = 0; cpu < NCPUS; cpu++) {
        int vcpu = ioctl(vm, KVM_CREATE_VCPU, cpu);

        assert_true(vcpu >= 0);
        if (cpuid_apply(vcpu, cpu, &d, &err))
            fail_msg("%s", err.text);
        cpuid->nent = 300;
        assert_int_equal(ioctl(vcpu, KVM_GET_CPUID2, cpuid), 0);
        check_place(cpuid, cpu);
        (void)close(vcpu);
    }
    (void)close(vm);
    free(cpuid);
}

int main(void)
{
    static struct kvm kvm;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(describes_and_accepts_itself, &kvm),
        cmocka_unit_test_prestate(obeys_masks, &kvm),
        cmocka_unit_test_prestate(names_what_the_host_lacks, &kvm),
        cmocka_unit_test_prestate(places_each_vcpu, &kvm),
    };
    int result;

    test_guest_open_kvm(&kvm);
    result = cmocka_run_group_tests(tests, NULL, NULL);
    kvm_close(&kvm);
    return result;
}
