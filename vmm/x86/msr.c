/* SPDX-License-Identifier: MIT
 *
 * KVM_GET_MSRS and KVM_SET_MSRS return how many entries they handled: 0 is a refusal. */
#include "vmm/x86/msr.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>

#include "vmm/kvm.h"

/* struct kvm_msrs with room for one entry. */
struct one_msr {
    uint32_t nmsrs, pad;
    struct kvm_msr_entry entry;
};

int msr_read(int vcpu_fd, uint32_t index, uint64_t *value, struct error *err)
{
    struct one_msr msr = {.nmsrs = 1, .entry = {.index = index}};
    int ret = KVM_IOCTL(vcpu_fd, KVM_GET_MSRS, &msr, err);

    if (ret < 0)
        return ret;
    if (ret != 1)
        return error_set(err, ENOENT, "KVM_GET_MSRS: MSR 0x%" PRIx32 " cannot be read", index);
    *value = msr.entry.data;
    return 0;
}

int msr_write(int vcpu_fd, uint32_t index, uint64_t value, struct error *err)
{
    struct one_msr msr = {.nmsrs = 1, .entry = {.index = index, .data = value}};
    int ret = KVM_IOCTL(vcpu_fd, KVM_SET_MSRS, &msr, err);

    if (ret < 0)
        return ret;
    if (ret != 1)
        return error_set(err, ENOENT, "KVM_SET_MSRS: MSR 0x%" PRIx32 " does not take 0x%" PRIx64,
                         index, value);
    return 0;
}
