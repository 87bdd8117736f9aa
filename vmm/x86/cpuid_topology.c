/* SPDX-License-Identifier: MIT
 *
 * One vCPU's CPUID: the machine's, with this vCPU's place in it. The machine is one package of
 * ncpus cores with one thread each; a vCPU's APIC id is its number. */
#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/x86/cpuid.h"
#include "vmm/x86/cpuid_features.h"

#define LEAF_FEATURES  0x1
#define LEAF_CACHES    0x4
#define LEAF_TOPOLOGY  0xb
#define LEAF_TOPOLOGY2 0x1f
#define LEAF_AMD_SIZES 0x80000008
#define LEAF_AMD_CACHE 0x8000001d
#define LEAF_AMD_IDS   0x8000001e

#define HTT_BIT        (1u << 28) /* 1.edx */
#define TOPOLOGY_LEAFS 2
#define LEVELS         3           /* thread, core, end of list */
#define VENDOR_AMD     0x68747541u /* "Auth" */
#define VENDOR_HYGON   0x6f677948u /* "Hygo" */

/* Bits that number n cores. */
static unsigned id_bits(unsigned n)
{
    unsigned bits = 0;

    while (1u << bits < n)
        bits++;
    return bits;
}

/* SDM volume 2A, CPUID leaf 4, and AMD's leaf 0x8000001d of the same form: eax[25:14] sharers - 1,
 * eax[31:26] cores - 1 (Intel). Levels 1 and 2 are each core's own, level 3 is everyone's. */
static void place_cache(struct kvm_cpuid_entry2 *e, unsigned ncpus)
{
    uint32_t ids = (1u << id_bits(ncpus)) - 1;
    uint32_t level = e->eax >> 5 & 7;

    if (!(e->eax & 0x1f))
        return;
    e->eax &= 0x3fff;
    if (level >= 3)
        e->eax |= ids << 14;
    if (e->function == LEAF_CACHES)
        e->eax |= ids << 26;
}

static void place_entry(struct kvm_cpuid_entry2 *e, unsigned cpu, unsigned ncpus, bool amd)
{
    switch (e->function) {
    case LEAF_FEATURES:
        e->ebx = (e->ebx & 0xffff) | ncpus << 16 | cpu << 24;
        e->edx = ncpus > 1 ? e->edx | HTT_BIT : e->edx & ~HTT_BIT;
        break;
    case LEAF_CACHES:
    case LEAF_AMD_CACHE:
        place_cache(e, ncpus);
        break;
    case LEAF_AMD_SIZES:
        if (amd)
            e->ecx = (e->ecx & ~0xf0ffu) | id_bits(ncpus) << 12 | (ncpus - 1);
        break;
    case LEAF_AMD_IDS:
        e->eax = cpu;
        e->ebx = cpu; /* core id; bits 15:8: one thread a core */
        e->ecx = 0;   /* node 0 of 1 */
        break;
    default:
        break;
    }
}

/* SDM volume 2A, leaf 0xb: eax = shift to the next level's id, ebx = logical processors at this
 * level, ecx = level number | type << 8 (1 thread, 2 core), edx = x2APIC id. */
static void put_topology(struct kvm_cpuid2 *cpuid, uint32_t function, unsigned cpu, unsigned ncpus)
{
    const struct {
        uint32_t shift, count, type;
    } levels[LEVELS] = {{0, 1, 1}, {id_bits(ncpus), ncpus, 2}, {0, 0, 0}};

    for (uint32_t i = 0; i < LEVELS; i++) {
        cpuid->entries[cpuid->nent++] = (struct kvm_cpuid_entry2){
            .function = function,
            .index = i,
            .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            .eax = levels[i].shift,
            .ebx = levels[i].count,
            .ecx = levels[i].type << 8 | i,
            .edx = cpu,
        };
    }
}

int cpuid_apply(int vcpu_fd, unsigned cpu, const struct machine_description *description,
                struct error *err)
{
    const struct machine_cpuid_entry *basic = cpuid_find_const(description, 0, 0);
    uint32_t last = basic ? basic->eax : 0;
    bool amd = basic && (basic->ebx == VENDOR_AMD || basic->ebx == VENDOR_HYGON);
    struct kvm_cpuid2 *cpuid =
        calloc(1, sizeof(*cpuid) +
                      (MACHINE_CPUID_MAX + TOPOLOGY_LEAFS * LEVELS) * sizeof(cpuid->entries[0]));
    int result;

    if (!cpuid)
        return error_set(err, ENOMEM, "no memory for CPUID");
    for (unsigned i = 0; i < description->ncpuid; i++) {
        const struct machine_cpuid_entry *e = &description->cpuid[i];
        struct kvm_cpuid_entry2 *to = &cpuid->entries[cpuid->nent];

        if (e->function == LEAF_TOPOLOGY || e->function == LEAF_TOPOLOGY2)
            continue;
        *to = (struct kvm_cpuid_entry2){
            .function = e->function,
            .index = e->index,
            .flags = e->flags,
            .eax = e->eax,
            .ebx = e->ebx,
            .ecx = e->ecx,
            .edx = e->edx,
        };
        place_entry(to, cpu, description->ncpus, amd);
        cpuid->nent++;
    }
    if (last >= LEAF_TOPOLOGY)
        put_topology(cpuid, LEAF_TOPOLOGY, cpu, description->ncpus);
    if (last >= LEAF_TOPOLOGY2)
        put_topology(cpuid, LEAF_TOPOLOGY2, cpu, description->ncpus);
    result = KVM_IOCTL(vcpu_fd, KVM_SET_CPUID2, cpuid, err);
    free(cpuid);
    return result < 0 ? result : 0;
}
