/* SPDX-License-Identifier: MIT
 *
 * What this host's KVM offers a guest, less what cannot travel, and whether it can honour what a
 * guest was given elsewhere. */
#include "vmm/x86/cpuid.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "vmm/x86/cpuid_features.h"

#define LEAF_FEATURES     0x1
#define LEAF_PMU          0xa
#define LEAF_TOPOLOGY     0xb
#define LEAF_SGX          0x12
#define LEAF_PT           0x14
#define LEAF_TOPOLOGY2    0x1f
#define LEAF_KVM_FEATURES 0x40000001
#define LEAF_AMD_PMU      0x80000022

#define FEATURE_MAX_NAME 32
/* What KVM_CAP_TSC_DEADLINE_TIMER stands for: 1.ecx bit 24. */
#define TSC_DEADLINE_BIT (1u << 24)
#define HYPERVISOR_BIT   (1u << 31)

/* kvmclock, its second set of MSRs, and the promise that it is stable: their state is three MSRs
 * and the VM clock. The other paravirtual features hand the host addresses in guest memory that the
 * kernel goes on writing by itself (steal time, PV EOI, async page faults), past the dirty log's
 * last round, or depend on how the host schedules. */
#define KVM_FEATURES_KEPT (1u << 0 | 1u << 3 | 1u << 24)

/* Features that a saved state of this version cannot carry, or that say where a vCPU runs:
 * nested virtualization (no nested state is saved), enclaves, performance counters and tracing
 * (bound to the CPU model); osxsave and ospke mirror CR4 and are KVM's to set, ht follows from the
 * number of vCPUs. */
static const char *const never_offered[] = {"vmx",      "svm",          "sgx",        "sgxlc",
                                            "pdcm",     "perfctr-core", "perfctr-nb", "perfctr-llc",
                                            "intel-pt", "arch-lbr",     "xss-pt",     "xss-lbr",
                                            "osxsave",  "ospke",        "ht"};

/* Leaves of what is never offered, and topology, which each vCPU gets its own of. */
static const uint32_t blank_leaves[] = {LEAF_PMU, LEAF_TOPOLOGY,  LEAF_SGX,
                                        LEAF_PT,  LEAF_TOPOLOGY2, LEAF_AMD_PMU};

static int fetch_supported(const struct kvm *kvm, struct machine_description *description,
                           struct error *err)
{
    struct kvm_cpuid2 *cpuid =
        calloc(1, sizeof(*cpuid) + MACHINE_CPUID_MAX * sizeof(cpuid->entries[0]));
    int result;

    description->ncpuid = 0;
    if (!cpuid)
        return error_set(err, ENOMEM, "no memory for CPUID");
    cpuid->nent = MACHINE_CPUID_MAX;
    result = KVM_IOCTL(kvm->fd, KVM_GET_SUPPORTED_CPUID, cpuid, err);
    for (uint32_t i = 0; result >= 0 && i < cpuid->nent; i++) {
        const struct kvm_cpuid_entry2 *e = &cpuid->entries[i];

        /* Kernels before 5.6 gave leaf 2 in several stateful entries: the first one counts. */
        if (cpuid_find(description, e->function, e->index))
            continue;
        description->cpuid[description->ncpuid++] = (struct machine_cpuid_entry){
            .function = e->function,
            .index = e->index,
            .flags = e->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            .eax = e->eax,
            .ebx = e->ebx,
            .ecx = e->ecx,
            .edx = e->edx,
        };
    }
    free(cpuid);
    return result < 0 ? result : 0;
}

/* What KVM reports depends on the CPU that the question was asked on and on the host's topology;
 * cpuid_apply() writes these fields for each vCPU. */
static void clear_host_traces(struct machine_description *description)
{
    struct machine_cpuid_entry *features = cpuid_find(description, LEAF_FEATURES, 0);
    struct machine_cpuid_entry *pv = cpuid_find(description, LEAF_KVM_FEATURES, 0);

    if (features)
        features->ebx &= 0xffff; /* APIC id and logical count */
    for (unsigned i = 0; i < description->ncpuid; i++) {
        struct machine_cpuid_entry *e = &description->cpuid[i];

        for (size_t j = 0; j < sizeof(blank_leaves) / sizeof(blank_leaves[0]); j++) {
            if (e->function == blank_leaves[j])
                e->eax = e->ebx = e->ecx = e->edx = 0;
        }
    }
    if (pv) {
        pv->eax &= KVM_FEATURES_KEPT;
        pv->ebx = pv->ecx = pv->edx = 0; /* edx: hints about this host's scheduling */
    }
    for (size_t i = 0; i < sizeof(never_offered) / sizeof(never_offered[0]); i++)
        (void)cpuid_clear(description, never_offered[i]);
}

static int describe(const struct kvm *kvm, struct machine_description *description,
                    struct error *err)
{
    struct machine_cpuid_entry *features;
    int result = fetch_supported(kvm, description, err);

    if (result)
        return result;
    clear_host_traces(description);
    features = cpuid_find(description, LEAF_FEATURES, 0);
    if (!features)
        return error_set(err, ENOTSUP, "KVM_GET_SUPPORTED_CPUID: no leaf 1");
    features->ecx |= HYPERVISOR_BIT;
    /* api.rst 4.20: the APIC timer's deadline mode is a capability of the in-kernel APIC, older
     * kernels leave it out of the list. */
    if (ioctl(kvm->fd, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0)
        features->ecx |= TSC_DEADLINE_BIT;
    cpuid_clear_dependents(description);
    return 0;
}

static int apply_spec(const char *spec, struct machine_description *description, struct error *err)
{
    const char *at = spec;
    size_t length = strcspn(at, ",");

    if (length != strlen("host") || strncmp(at, "host", length) != 0)
        return error_set(err, EINVAL, "'%s' is not a CPU: write host or host,-feature,-feature",
                         spec);
    for (at += length; *at; at += length) {
        char name[FEATURE_MAX_NAME] = "";

        at++; /* the comma */
        length = strcspn(at, ",");
        if (*at != '-' || length < 2)
            return error_set(err, EINVAL,
                             "'%.*s': a feature can only be taken away: write -feature",
                             (int)length, at);
        if (length - 1 < sizeof(name))
            memcpy(name, at + 1, length - 1);
        if (!*name || !cpuid_clear(description, name))
            return error_set(err, EINVAL, "unknown CPU feature '%.*s'", (int)(length - 1), at + 1);
    }
    cpuid_clear_dependents(description);
    return 0;
}

int cpuid_describe_host(const struct kvm *kvm, const char *spec,
                        struct machine_description *description, struct error *err)
{
    int result = describe(kvm, description, err);

    return result ? result : apply_spec(spec, description, err);
}

int cpuid_check(const struct kvm *kvm, const struct machine_description *description,
                struct error *err)
{
    struct machine_description *host = calloc(1, sizeof(*host));
    int result;

    if (!host)
        return error_set(err, ENOMEM, "no memory to compare CPUID");
    result = describe(kvm, host, err);
    if (!result)
        result = cpuid_compare(description, host, err);
    free(host);
    return result;
}
