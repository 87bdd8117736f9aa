/* SPDX-License-Identifier: MIT
 *
 * One vCPU, saved. MP_STATE was read before all the rest, by the caller. */
#include "vmm/x86/vcpu_state.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>

#include "vmm/x86/msr.h"
#include "vmm/x86/vcpu_fields.h"

int vcpu_state_mp_state(int vcpu_fd, uint32_t *mp_state, struct error *err)
{
    struct kvm_mp_state state;
    int ret = KVM_IOCTL(vcpu_fd, KVM_GET_MP_STATE, &state, err);

    if (!ret)
        *mp_state = state.mp_state;
    return ret;
}

static int save_registers(const struct kvm *kvm, int fd, struct state_writer *writer,
                          struct error *err)
{
    struct kvm_sregs sregs;
    struct kvm_regs regs;
    int ret = KVM_IOCTL(fd, KVM_GET_SREGS, &sregs, err);

    if (!ret)
        ret = vcpu_state_refuse_nested(&sregs, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_GET_REGS, &regs, err);
    if (ret)
        return ret;
    state_put_fields(writer, vcpu_regs_fields, VCPU_REGS_NFIELDS, &regs);
    for (size_t i = 0; i < VCPU_SEGMENTS; i++)
        state_put_packed(writer, vcpu_segments[i].name, vcpu_segment_fields, VCPU_SEGMENT_NFIELDS,
                         (const uint8_t *)&sregs + vcpu_segments[i].offset);
    state_put_fields(writer, vcpu_sregs_fields, VCPU_SREGS_NFIELDS, &sregs);
    if (kvm->sregs2) {
        struct kvm_sregs2 sregs2;

        ret = KVM_IOCTL(fd, KVM_GET_SREGS2, &sregs2, err);
        if (!ret && sregs2.flags & KVM_SREGS2_FLAGS_PDPTRS_VALID)
            state_put_fields(writer, vcpu_pdptrs_fields, VCPU_PDPTRS_NFIELDS, &sregs2);
    }
    return ret;
}

static int save_xcrs(int fd, struct state_writer *writer, struct error *err)
{
    uint32_t cells[KVM_MAX_XCRS * VCPU_CELLS_PER_XCR];
    struct kvm_xcrs xcrs;
    int ret = KVM_IOCTL(fd, KVM_GET_XCRS, &xcrs, err);

    if (ret)
        return ret;
    for (uint32_t i = 0; i < xcrs.nr_xcrs && i < KVM_MAX_XCRS; i++) {
        cells[i * VCPU_CELLS_PER_XCR] = xcrs.xcrs[i].xcr;
        cells[i * VCPU_CELLS_PER_XCR + 1] = (uint32_t)(xcrs.xcrs[i].value >> 32);
        cells[i * VCPU_CELLS_PER_XCR + 2] = (uint32_t)xcrs.xcrs[i].value;
    }
    state_put_cells(writer, "xcrs", cells, (size_t)xcrs.nr_xcrs * VCPU_CELLS_PER_XCR);
    return 0;
}

static int save_xsave(const struct kvm *kvm, int fd, struct state_writer *writer, struct error *err)
{
    size_t bytes = vcpu_state_xsave_bytes(kvm);
    void *area = calloc(1, bytes);
    int ret;

    if (!area)
        return error_set(err, ENOMEM, "no memory for XSAVE");
    if (bytes > VCPU_XSAVE_MIN_BYTES)
        ret = KVM_IOCTL(fd, KVM_GET_XSAVE2, area, err);
    else
        ret = KVM_IOCTL(fd, KVM_GET_XSAVE, area, err);
    if (!ret)
        state_put_bytes(writer, "xsave", area, bytes);
    free(area);
    return ret;
}

static int save_tsc(int fd, struct state_writer *writer, struct error *err)
{
    struct clock_state_tsc tsc;
    uint64_t deadline;
    int ret = clock_state_read_tsc(fd, &tsc, err);

    if (ret)
        return ret;
    state_put_u64(writer, "tsc", tsc.value);
    state_put_u64(writer, "tsc-realtime-ns", tsc.realtime_ns);
    if (tsc.has_offset)
        state_put_u64(writer, "tsc-offset", tsc.offset);
    if (msr_read(fd, MSR_TSC_DEADLINE, &deadline, NULL) == 0)
        state_put_u64(writer, "tsc-deadline", deadline);
    return 0;
}

/* Events first: without KVM_CAP_EXCEPTION_PAYLOAD, reading them puts what a pending exception has
 * to say into CR2 or DR6. */
static int save_rest(int fd, struct state_writer *writer, struct error *err)
{
    struct kvm_debugregs debug;
    struct kvm_lapic_state lapic;
    int ret = vcpu_state_save_events(fd, writer, err);

    if (!ret)
        ret = KVM_IOCTL(fd, KVM_GET_DEBUGREGS, &debug, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_GET_LAPIC, &lapic, err);
    if (ret)
        return ret;
    state_put_fields(writer, vcpu_debug_fields, VCPU_DEBUG_NFIELDS, &debug);
    state_put_bytes(writer, "lapic", lapic.regs, sizeof(lapic.regs));
    return 0;
}

int vcpu_state_save(const struct kvm *kvm, const struct vcpu_state_msrs *msrs, int vcpu_fd,
                    unsigned cpu, uint32_t mp_state, struct state_writer *writer, struct error *err)
{
    char name[STATE_NODE_NAME_MAX];
    int ret;

    vcpu_state_node_name(cpu, name, sizeof(name));
    state_begin_node(writer, name);
    state_put_u32(writer, "mp-state", mp_state);
    ret = save_rest(vcpu_fd, writer, err);
    if (!ret)
        ret = save_registers(kvm, vcpu_fd, writer, err);
    if (!ret)
        ret = save_xcrs(vcpu_fd, writer, err);
    if (!ret)
        ret = save_xsave(kvm, vcpu_fd, writer, err);
    if (!ret)
        ret = vcpu_state_save_msrs(msrs, vcpu_fd, writer, err);
    if (!ret)
        ret = save_tsc(vcpu_fd, writer, err);
    if (ret)
        error_prefix(err, "vCPU %u", cpu);
    state_end_node(writer);
    return ret;
}
