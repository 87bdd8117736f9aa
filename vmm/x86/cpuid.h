/* SPDX-License-Identifier: MIT
 *
 * What the guest's CPUID says, and whether a host can honour it. */
#ifndef VMM_X86_CPUID_H
#define VMM_X86_CPUID_H

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/machine_tree.h"

/* Fills description->cpuid/ncpuid from KVM_GET_SUPPORTED_CPUID (api.rst 4.20), masked by spec:
 * "host" or "host,-feature,…". Per-vCPU fields (APIC id, x2APIC id, topology) are left for
 * cpuid_for_vcpu(). -EINVAL names an unknown feature. */
int cpuid_describe_host(const struct kvm *kvm, const char *spec,
                        struct machine_description *description, struct error *err);

/* -ENOTSUP with the names of all feature bits that the description has and this host lacks
 * (leaf.reg.bit where no name is known). */
int cpuid_check(const struct kvm *kvm, const struct machine_description *description,
                struct error *err);

/* KVM_SET_CPUID2 for one vCPU, with its APIC ids and topology leaves fixed up. */
int cpuid_apply(int vcpu_fd, unsigned cpu, const struct machine_description *description,
                struct error *err);

#endif
