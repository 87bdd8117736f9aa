/* SPDX-License-Identifier: MIT
 *
 * Opening /dev/kvm and refusing early, with everything that is missing named at once: a machine
 * that fails halfway through its creation tells the user less. */
#include "vmm/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define KVM_DEVICE "/dev/kvm"

struct required {
    int capability;
    const char *name;
};

#define REQUIRED(capability)    \
    {                           \
        capability, #capability \
    }

/* What every machine needs to be built, stopped, saved and restored. All of it has been in Linux
 * since 4.13 (KVM_CAP_IMMEDIATE_EXIT is the youngest). */
static const struct required required_capabilities[] = {
    REQUIRED(KVM_CAP_USER_MEMORY),  REQUIRED(KVM_CAP_DESTROY_MEMORY_REGION_WORKS),
    REQUIRED(KVM_CAP_SET_TSS_ADDR), REQUIRED(KVM_CAP_SET_IDENTITY_MAP_ADDR),
    REQUIRED(KVM_CAP_EXT_CPUID),    REQUIRED(KVM_CAP_IRQCHIP),
    REQUIRED(KVM_CAP_PIT2),         REQUIRED(KVM_CAP_PIT_STATE2),
    REQUIRED(KVM_CAP_MP_STATE),     REQUIRED(KVM_CAP_VCPU_EVENTS),
    REQUIRED(KVM_CAP_DEBUGREGS),    REQUIRED(KVM_CAP_XSAVE),
    REQUIRED(KVM_CAP_XCRS),         REQUIRED(KVM_CAP_ADJUST_CLOCK),
    REQUIRED(KVM_CAP_GET_TSC_KHZ),  REQUIRED(KVM_CAP_IMMEDIATE_EXIT),
};

int kvm_ioctl(int fd, unsigned long request, const char *name, void *argument, struct error *err)
{
    int result = ioctl(fd, request, argument);

    if (result < 0) {
        int code = errno;
        return error_set(err, code, "%s: %s", name, strerror(code));
    }
    return result;
}

/* A capability's value, 0 where the kernel does not know it. Capabilities are small integers that
 * travel in the pointer argument. */
static unsigned check_extension(int fd, int capability)
{
    int value = ioctl(fd, KVM_CHECK_EXTENSION, capability);

    return value > 0 ? (unsigned)value : 0;
}

static int check_required(int fd, struct error *err)
{
    char missing[ERROR_TEXT_BYTES / 2] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof(required_capabilities) / sizeof(required_capabilities[0]); i++) {
        const struct required *need = &required_capabilities[i];
        int length;

        if (check_extension(fd, need->capability))
            continue;
        length = snprintf(missing + used, sizeof(missing) - used, " %s", need->name);
        if (length < 0 || (size_t)length >= sizeof(missing) - used)
            break;
        used += (size_t)length;
    }
    if (used)
        return error_set(err, ENOTSUP,
                         KVM_DEVICE " lacks%s: Linux 4.13 or newer with x86 KVM is needed",
                         missing);
    return 0;
}

static int open_device(struct error *err)
{
    int fd = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    int code = errno;

    if (fd >= 0)
        return fd;
    switch (code) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
        return error_set(err, code,
                         "no " KVM_DEVICE
                         ": load kvm_intel or kvm_amd, switch virtualization on in the firmware, "
                         "or pass the device into this container or VM");
    case EACCES:
    case EPERM:
        return error_set(err, code,
                         "no permission for " KVM_DEVICE
                         ": add this user to the group that owns it (often 'kvm')");
    default:
        return error_set(err, code, KVM_DEVICE ": %s", strerror(code));
    }
}

static void read_optional(struct kvm *kvm)
{
    unsigned recommended = check_extension(kvm->fd, KVM_CAP_NR_VCPUS);

    /* api.rst 4.4: without MAX_VCPUS the recommended number counts, without that it is 4. */
    kvm->max_vcpus = check_extension(kvm->fd, KVM_CAP_MAX_VCPUS);
    if (!kvm->max_vcpus)
        kvm->max_vcpus = recommended ? recommended : 4;
    kvm->max_memslots = check_extension(kvm->fd, KVM_CAP_NR_MEMSLOTS);
    if (!kvm->max_memslots)
        kvm->max_memslots = 32;
    kvm->manual_protect = check_extension(kvm->fd, KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2);
    kvm->dirty_ring_capability = KVM_CAP_DIRTY_LOG_RING_ACQ_REL;
    kvm->dirty_ring_max = check_extension(kvm->fd, KVM_CAP_DIRTY_LOG_RING_ACQ_REL);
    if (!kvm->dirty_ring_max) {
        kvm->dirty_ring_capability = KVM_CAP_DIRTY_LOG_RING;
        kvm->dirty_ring_max = check_extension(kvm->fd, KVM_CAP_DIRTY_LOG_RING);
    }
    kvm->tsc_control = check_extension(kvm->fd, KVM_CAP_TSC_CONTROL) != 0;
    kvm->clock_flags = check_extension(kvm->fd, KVM_CAP_ADJUST_CLOCK);
    kvm->xsave2_bytes = check_extension(kvm->fd, KVM_CAP_XSAVE2);
    kvm->sregs2 = check_extension(kvm->fd, KVM_CAP_SREGS2) != 0;
    kvm->exception_payload = check_extension(kvm->fd, KVM_CAP_EXCEPTION_PAYLOAD) != 0;
    kvm->triple_fault_event = check_extension(kvm->fd, KVM_CAP_X86_TRIPLE_FAULT_EVENT) != 0;
}

/* Older kernels (before 5.16) answer this for a vCPU only. */
static unsigned read_tsc_khz(int vm_fd)
{
    int khz = KVM_IOCTL(vm_fd, KVM_GET_TSC_KHZ, NULL, NULL);

    if (khz < 0) {
        int vcpu_fd = KVM_IOCTL(vm_fd, KVM_CREATE_VCPU, NULL, NULL);

        if (vcpu_fd >= 0) {
            khz = KVM_IOCTL(vcpu_fd, KVM_GET_TSC_KHZ, NULL, NULL);
            (void)close(vcpu_fd);
        }
    }
    return khz > 0 ? (unsigned)khz : 0;
}

int kvm_open(struct kvm *kvm, struct error *err)
{
    int result;

    memset(kvm, 0, sizeof(*kvm));
    kvm->empty_vm_fd = -1;
    kvm->fd = open_device(err);
    if (kvm->fd < 0) {
        result = kvm->fd;
        goto out;
    }
    result = KVM_IOCTL(kvm->fd, KVM_GET_API_VERSION, NULL, err);
    if (result < 0)
        goto out;
    /* api.rst 4.1: anything but 12 is to be refused, it will never change again. */
    if (result != KVM_API_VERSION) {
        result = error_set(err, ENOTSUP,
                           KVM_DEVICE " speaks API version %d, not %d: a newer Linux is needed",
                           result, KVM_API_VERSION);
        goto out;
    }
    result = check_required(kvm->fd, err);
    if (result)
        goto out;
    result = KVM_IOCTL(kvm->fd, KVM_GET_VCPU_MMAP_SIZE, NULL, err);
    if (result < 0)
        goto out;
    kvm->run_bytes = (size_t)result;
    read_optional(kvm);
    result = KVM_IOCTL(kvm->fd, KVM_CREATE_VM, NULL, err);
    if (result < 0)
        goto out;
    kvm->empty_vm_fd = result;
    kvm->tsc_khz = read_tsc_khz(kvm->empty_vm_fd);
    result = 0;
out:
    if (result)
        kvm_close(kvm);
    return result;
}

void kvm_close(struct kvm *kvm)
{
    if (kvm->fd >= 0) {
        if (kvm->empty_vm_fd >= 0)
            (void)close(kvm->empty_vm_fd);
        (void)close(kvm->fd);
    }
    kvm->fd = -1;
    kvm->empty_vm_fd = -1;
}
