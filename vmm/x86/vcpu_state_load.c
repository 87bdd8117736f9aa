/* SPDX-License-Identifier: MIT
 *
 * One vCPU, loaded. The order is deliberate: SREGS enables the local APIC and the mode that its
 * page is read in, the TSC must be right before the deadline that is compared with it, the deadline
 * is ignored without a complaint before the local APIC is in deadline mode, events and MP_STATE
 * rest on all of it. */
#include "vmm/x86/vcpu_state.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/x86/msr.h"
#include "vmm/x86/vcpu_fields.h"

#define XSAVE_MAX_BYTES (64u * 1024u)

/* PDPTRs are registers of their own (SDM vol. 3, 4.4.1). Without SREGS2 KVM reads them from memory
 * anew. */
static int load_pdptrs(const struct kvm *kvm, int fd, struct state_reader *node, struct error *err)
{
    struct kvm_sregs2 sregs2;
    int ret;

    if (!kvm->sregs2 || !state_has(node, vcpu_pdptrs_fields[0].name))
        return 0;
    ret = KVM_IOCTL(fd, KVM_GET_SREGS2, &sregs2, err);
    if (!ret)
        ret = state_get_fields(node, vcpu_pdptrs_fields, VCPU_PDPTRS_NFIELDS, &sregs2, err);
    if (ret)
        return ret;
    sregs2.flags = KVM_SREGS2_FLAGS_PDPTRS_VALID;
    return KVM_IOCTL(fd, KVM_SET_SREGS2, &sregs2, err);
}

static int load_registers(const struct kvm *kvm, int fd, struct state_reader *node,
                          struct error *err)
{
    struct kvm_sregs sregs;
    struct kvm_regs regs;
    int ret = 0;

    memset(&sregs, 0, sizeof(sregs));
    memset(&regs, 0, sizeof(regs));
    for (size_t i = 0; !ret && i < VCPU_SEGMENTS; i++)
        ret =
            state_get_packed(node, vcpu_segments[i].name, vcpu_segment_fields, VCPU_SEGMENT_NFIELDS,
                             (uint8_t *)&sregs + vcpu_segments[i].offset, err);
    if (!ret)
        ret = state_get_fields(node, vcpu_sregs_fields, VCPU_SREGS_NFIELDS, &sregs, err);
    if (!ret)
        ret = state_get_fields(node, vcpu_regs_fields, VCPU_REGS_NFIELDS, &regs, err);
    if (!ret)
        ret = vcpu_state_refuse_nested(&sregs, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_SET_SREGS, &sregs, err);
    if (!ret)
        ret = load_pdptrs(kvm, fd, node, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_SET_REGS, &regs, err);
    return ret;
}

static int load_xcrs(int fd, struct state_reader *node, struct error *err)
{
    const size_t each = VCPU_CELLS_PER_XCR * sizeof(uint32_t);
    struct kvm_xcrs xcrs;
    const uint8_t *data;
    size_t bytes;
    int ret = state_get_bytes(node, "xcrs", KVM_MAX_XCRS * each, &data, &bytes, err);

    if (ret)
        return ret;
    if (bytes % each != 0)
        return error_set(err, EPROTO, "saved state: /%s/xcrs: %zu bytes are not triples",
                         node->name, bytes);
    memset(&xcrs, 0, sizeof(xcrs));
    xcrs.nr_xcrs = (uint32_t)(bytes / each);
    for (uint32_t i = 0; i < xcrs.nr_xcrs; i++, data += each) {
        xcrs.xcrs[i].xcr = state_cell(data);
        xcrs.xcrs[i].value = (uint64_t)state_cell(data + sizeof(uint32_t)) << 32 |
                             state_cell(data + 2 * sizeof(uint32_t));
    }
    return KVM_IOCTL(fd, KVM_SET_XCRS, &xcrs, err);
}

static int load_xsave(const struct kvm *kvm, int fd, struct state_reader *node, struct error *err)
{
    const uint8_t *data;
    size_t bytes;
    void *area;
    int ret = state_get_bytes(node, "xsave", XSAVE_MAX_BYTES, &data, &bytes, err);

    if (ret)
        return ret;
    if (bytes < VCPU_XSAVE_MIN_BYTES)
        return error_set(err, EPROTO, "saved state: /%s/xsave has %zu bytes, not at least %u",
                         node->name, bytes, VCPU_XSAVE_MIN_BYTES);
    if (bytes > vcpu_state_xsave_bytes(kvm))
        return error_set(err, ENOTSUP, "saved state: /%s/xsave has %zu bytes, this host %zu",
                         node->name, bytes, vcpu_state_xsave_bytes(kvm));
    area = calloc(1, vcpu_state_xsave_bytes(kvm));
    if (!area)
        return error_set(err, ENOMEM, "no memory for XSAVE");
    memcpy(area, data, bytes);
    ret = KVM_IOCTL(fd, KVM_SET_XSAVE, area, err);
    free(area);
    return ret;
}

static int load_debug(int fd, struct state_reader *node, struct error *err)
{
    struct kvm_debugregs debug;
    int ret;

    memset(&debug, 0, sizeof(debug));
    ret = state_get_fields(node, vcpu_debug_fields, VCPU_DEBUG_NFIELDS, &debug, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_SET_DEBUGREGS, &debug, err);
    return ret;
}

static int load_tsc(int fd, struct vcpu_state_time *time, struct state_reader *node,
                    struct error *err)
{
    struct clock_state_tsc tsc = {0};
    bool ignored = false;
    int ret = state_get_u64(node, "tsc", &tsc.value, err);

    if (!ret)
        ret = state_get_u64(node, "tsc-realtime-ns", &tsc.realtime_ns, err);
    if (!ret && state_has(node, "tsc-offset")) {
        tsc.has_offset = true;
        ret = state_get_u64(node, "tsc-offset", &tsc.offset, err);
    }
    if (!ret)
        ret = clock_state_apply_tsc(fd, time->tsc_khz, time->clock, &tsc, &ignored, err);
    time->tsc_ignored |= ignored;
    return ret;
}

static int load_lapic(int fd, struct state_reader *node, struct error *err)
{
    struct kvm_lapic_state lapic;
    const uint8_t *data;
    uint64_t deadline;
    size_t bytes;
    int ret = state_get_bytes(node, "lapic", sizeof(lapic.regs), &data, &bytes, err);

    if (ret)
        return ret;
    if (bytes != sizeof(lapic.regs))
        return error_set(err, EPROTO, "saved state: /%s/lapic has %zu bytes, not %zu", node->name,
                         bytes, sizeof(lapic.regs));
    memcpy(lapic.regs, data, bytes);
    ret = KVM_IOCTL(fd, KVM_SET_LAPIC, &lapic, err);
    if (ret || !state_has(node, "tsc-deadline"))
        return ret;
    ret = state_get_u64(node, "tsc-deadline", &deadline, err);
    if (!ret)
        ret = msr_write(fd, MSR_TSC_DEADLINE, deadline, err);
    return ret;
}

static int load_events(const struct kvm *kvm, int fd, struct state_reader *node, struct error *err)
{
    struct kvm_mp_state mp_state = {0};
    int ret = state_get_u32(node, "mp-state", &mp_state.mp_state, err);

    if (!ret)
        ret = vcpu_state_load_events(kvm, fd, node, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_SET_MP_STATE, &mp_state, err);
    return ret;
}

int vcpu_state_load(const struct kvm *kvm, int vcpu_fd, unsigned cpu, struct vcpu_state_time *time,
                    struct state_reader *root, struct error *err)
{
    char name[STATE_NODE_NAME_MAX];
    struct state_reader node;
    int ret;

    vcpu_state_node_name(cpu, name, sizeof(name));
    ret = state_open_node(root, name, &node, err);
    if (ret)
        return ret;
    ret = load_registers(kvm, vcpu_fd, &node, err);
    if (!ret)
        ret = load_xcrs(vcpu_fd, &node, err);
    if (!ret)
        ret = load_xsave(kvm, vcpu_fd, &node, err);
    if (!ret)
        ret = load_debug(vcpu_fd, &node, err);
    if (!ret)
        ret = vcpu_state_load_msrs(vcpu_fd, &node, err);
    if (!ret)
        ret = load_tsc(vcpu_fd, time, &node, err);
    if (!ret)
        ret = load_lapic(vcpu_fd, &node, err);
    if (!ret)
        ret = load_events(kvm, vcpu_fd, &node, err);
    if (!ret)
        ret = state_close(&node, err);
    if (ret)
        error_prefix(err, "vCPU %u", cpu);
    return ret;
}
