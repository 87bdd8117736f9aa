/* SPDX-License-Identifier: MIT */
#include "vmm/x86/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>

/* SDM volume 3, 17.2.4: local enables are the even bits, LE and a bit that is always set follow. */
#define DR7_FIXED      0x500u
#define DR7_ENABLE(i)  (1u << 2 * (i))
#define DR7_TYPE(i)    (16 + 4 * (i))
#define DR7_LENGTH(i)  (18 + 4 * (i))
#define DR7_ON_EXECUTE 0u
#define DR7_ON_WRITE   1u
#define DR7_ON_ACCESS  3u

int debug_check_hardware(const struct debug_hardware *point, struct error *err)
{
    uint64_t bytes = point->bytes;

    if (point->kind == DEBUG_POINT_EXECUTE && bytes != 1)
        return error_set(err, EINVAL, "a hardware breakpoint has length 1");
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return error_set(err, EINVAL, "a debug register watches 1, 2, 4 or 8 bytes, not %" PRIu64,
                         bytes);
    if (point->address % bytes)
        return error_set(err, EINVAL,
                         "a debug register watches %" PRIu64 " bytes at a multiple of that", bytes);
    return 0;
}

uint64_t debug_dr7(const struct debug_hardware *points)
{
    static const unsigned lengths[9] = {[1] = 0, [2] = 1, [4] = 3, [8] = 2};
    uint64_t dr7 = 0;

    for (unsigned i = 0; i < DEBUG_NHARDWARE; i++) {
        uint64_t type = points[i].kind == DEBUG_POINT_EXECUTE ? DR7_ON_EXECUTE
                        : points[i].kind == DEBUG_POINT_WRITE ? DR7_ON_WRITE
                                                              : DR7_ON_ACCESS;

        if (points[i].used)
            dr7 |= DR7_FIXED | DR7_ENABLE(i) | type << DR7_TYPE(i) |
                   (uint64_t)lengths[points[i].bytes & 0xf] << DR7_LENGTH(i);
    }
    return dr7;
}

int debug_control(int vcpu_fd, const struct debug_control *control, struct error *err)
{
    struct kvm_guest_debug debug = {.control = 0};
    uint64_t dr7 = control->hardware ? debug_dr7(control->hardware) : 0;

    if (control->software)
        debug.control |= KVM_GUESTDBG_USE_SW_BP;
    if (control->step)
        debug.control |= KVM_GUESTDBG_SINGLESTEP;
    if (control->step && control->hold_irq)
        debug.control |= KVM_GUESTDBG_BLOCKIRQ;
    if (dr7) {
        debug.control |= KVM_GUESTDBG_USE_HW_BP;
        for (unsigned i = 0; i < DEBUG_NHARDWARE; i++)
            debug.arch.debugreg[i] = control->hardware[i].used ? control->hardware[i].address : 0;
        debug.arch.debugreg[7] = dr7;
    }
    if (control->inject)
        debug.control |=
            control->inject == DEBUG_VECTOR_BP ? KVM_GUESTDBG_INJECT_BP : KVM_GUESTDBG_INJECT_DB;
    if (debug.control)
        debug.control |= KVM_GUESTDBG_ENABLE;
    return KVM_IOCTL(vcpu_fd, KVM_SET_GUEST_DEBUG, &debug, err);
}

int debug_translate(int vcpu_fd, uint64_t address, gpa_t *gpa, struct error *err)
{
    struct kvm_translation translation = {.linear_address = address};
    int ret = KVM_IOCTL(vcpu_fd, KVM_TRANSLATE, &translation, err);

    if (ret)
        return ret;
    if (!translation.valid)
        return error_set(err, EFAULT, "nothing is mapped at 0x%" PRIx64, address);
    *gpa = translation.physical_address;
    return 0;
}
