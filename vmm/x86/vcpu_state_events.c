/* SPDX-License-Identifier: MIT
 *
 * KVM_GET_VCPU_EVENTS (api.rst 4.31), with the two parts that a VM has to ask for. What is not
 * pending is not said to be valid, so that a host without these parts takes a state that needs
 * none of them. */
#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

#include "vmm/x86/vcpu_fields.h"
#include "vmm/x86/vcpu_state.h"

#define TRIPLE_FAULT "triple-fault"

#define EVENT(member, name) STATE_FIELD(struct kvm_vcpu_events, member, name)
static const struct state_field fields[] = {
    EVENT(exception.injected, "exception-injected"),
    EVENT(exception.nr, "exception-nr"),
    EVENT(exception.has_error_code, "exception-has-error-code"),
    EVENT(exception.pending, "exception-pending"),
    EVENT(exception.error_code, "exception-error-code"),
    EVENT(interrupt.injected, "interrupt-injected"),
    EVENT(interrupt.nr, "interrupt-nr"),
    EVENT(interrupt.soft, "interrupt-soft"),
    EVENT(interrupt.shadow, "interrupt-shadow"),
    EVENT(nmi.injected, "nmi-injected"),
    EVENT(nmi.pending, "nmi-pending"),
    EVENT(nmi.masked, "nmi-masked"),
    EVENT(sipi_vector, "sipi-vector"),
    EVENT(flags, "event-flags"),
    EVENT(smi.smm, "smi-smm"),
    EVENT(smi.pending, "smi-pending"),
    EVENT(smi.smm_inside_nmi, "smi-inside-nmi"),
    EVENT(smi.latched_init, "smi-latched-init"),
    EVENT(exception_has_payload, "exception-has-payload"),
    EVENT(exception_payload, "exception-payload"),
};

static int enable(int vm_fd, uint32_t capability, struct error *err)
{
    struct kvm_enable_cap enable = {.cap = capability, .args = {1}};

    return KVM_IOCTL(vm_fd, KVM_ENABLE_CAP, &enable, err);
}

int vcpu_state_enable_events(const struct kvm *kvm, int vm_fd, struct error *err)
{
    int ret = 0;

    if (kvm->exception_payload)
        ret = enable(vm_fd, KVM_CAP_EXCEPTION_PAYLOAD, err);
    if (!ret && kvm->triple_fault_event)
        ret = enable(vm_fd, KVM_CAP_X86_TRIPLE_FAULT_EVENT, err);
    return ret;
}

int vcpu_state_save_events(int vcpu_fd, struct state_writer *writer, struct error *err)
{
    struct kvm_vcpu_events events;
    int ret;

    memset(&events, 0, sizeof(events));
    ret = KVM_IOCTL(vcpu_fd, KVM_GET_VCPU_EVENTS, &events, err);
    if (ret)
        return ret;
    if (!events.exception.pending)
        events.flags &= ~(uint32_t)KVM_VCPUEVENT_VALID_PAYLOAD;
    if (events.flags & KVM_VCPUEVENT_VALID_TRIPLE_FAULT && events.triple_fault.pending)
        state_put_u32(writer, TRIPLE_FAULT, 1);
    events.flags &= ~(uint32_t)KVM_VCPUEVENT_VALID_TRIPLE_FAULT;
    state_put_fields(writer, fields, STATE_COUNT(fields), &events);
    return 0;
}

/* Names what is pending and cannot be honoured. */
static int check(const struct kvm *kvm, const struct kvm_vcpu_events *events, struct error *err)
{
    const char *what = NULL;

    if (events->flags & KVM_VCPUEVENT_VALID_PAYLOAD && !kvm->exception_payload)
        what = "a pending exception (KVM_CAP_EXCEPTION_PAYLOAD)";
    if (events->flags & KVM_VCPUEVENT_VALID_TRIPLE_FAULT && !kvm->triple_fault_event)
        what = "a pending triple fault (KVM_CAP_X86_TRIPLE_FAULT_EVENT)";
    return what ? error_set(err, ENOTSUP, "this host's KVM cannot take over %s", what) : 0;
}

int vcpu_state_load_events(const struct kvm *kvm, int vcpu_fd, struct state_reader *node,
                           struct error *err)
{
    struct kvm_vcpu_events events;
    uint32_t triple_fault = 0;
    int ret;

    memset(&events, 0, sizeof(events));
    ret = state_get_fields(node, fields, STATE_COUNT(fields), &events, err);
    if (!ret && state_has(node, TRIPLE_FAULT))
        ret = state_get_u32(node, TRIPLE_FAULT, &triple_fault, err);
    if (triple_fault) {
        events.flags |= KVM_VCPUEVENT_VALID_TRIPLE_FAULT;
        events.triple_fault.pending = 1;
    }
    if (!ret)
        ret = check(kvm, &events, err);
    if (!ret)
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_VCPU_EVENTS, &events, err);
    return ret;
}
