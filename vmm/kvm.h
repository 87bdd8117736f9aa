/* SPDX-License-Identifier: MIT
 *
 * /dev/kvm: opening it, what it can do, and ioctls that fail with their own name. */
#ifndef VMM_KVM_H
#define VMM_KVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"

typedef uint64_t gpa_t;

/* The host's KVM. Filled by kvm_open(), constant afterwards, shared by all threads. */
struct kvm {
    int fd;                  /* /dev/kvm */
    int empty_vm_fd;         /* a VM without anything, for what only a VM can be asked; while it is
                                open, creating and closing others is cheap */
    size_t run_bytes;        /* size of a vCPU's struct kvm_run mapping */
    unsigned max_vcpus;      /* KVM_CAP_MAX_VCPUS */
    unsigned max_memslots;   /* KVM_CAP_NR_MEMSLOTS */
    uint64_t manual_protect; /* KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2: 0, or the flags it offers */
    unsigned dirty_ring_max; /* largest dirty ring in bytes, 0 = absent */
    unsigned dirty_ring_capability; /* which of the two: KVM_CAP_DIRTY_LOG_RING_ACQ_REL, or, on
                                       older kernels, KVM_CAP_DIRTY_LOG_RING */
    bool tsc_control;               /* KVM_CAP_TSC_CONTROL */
    unsigned tsc_khz;               /* KVM_GET_TSC_KHZ of a new VM; 0 = unknown */
    unsigned clock_flags;           /* KVM_CAP_ADJUST_CLOCK: KVM_CLOCK_* flags of KVM_GET_CLOCK */
    unsigned xsave2_bytes;          /* KVM_CAP_XSAVE2: 0 = absent */
    bool sregs2;                    /* KVM_CAP_SREGS2 */
    bool exception_payload;         /* KVM_CAP_EXCEPTION_PAYLOAD */
    bool triple_fault_event;        /* KVM_CAP_X86_TRIPLE_FAULT_EVENT */
};

/* Opens /dev/kvm and checks the API version and every capability that pageferry cannot do without;
 * the error line names what is missing and what to do (absent device, no permission, old kernel).
 * Source: Documentation/virt/kvm/api.rst, sections 4.1, 4.4. */
int kvm_open(struct kvm *kvm, struct error *err);
void kvm_close(struct kvm *kvm);

/* ioctl() that retries nothing and returns the ioctl's result (>= 0) or -errno, with "NAME:
 * strerror" in err. Use KVM_IOCTL so that the name cannot differ from the request. */
int kvm_ioctl(int fd, unsigned long request, const char *name, void *argument, struct error *err);
#define KVM_IOCTL(fd, request, argument, err) kvm_ioctl(fd, request, #request, argument, err)

#endif
