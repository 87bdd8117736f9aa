/* SPDX-License-Identifier: MIT
 *
 * MSRs in bulk. KVM_GET_MSRS and KVM_SET_MSRS stop at the first entry that they refuse and return
 * how many they handled (api.rst 4.18, 4.19). */
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/x86/msr.h"
#include "vmm/x86/vcpu_state.h"

#define CELLS_PER_MSR 3
#define PROPERTY      "msrs"

/* Hyper-V TLFS, synthetic MSRs: time since the partition began and time a virtual processor ran. */
#define HV_TIME_REF_COUNT 0x40000020u
#define HV_VP_RUNTIME     0x40000010u

/* SDM vol. 3, 11.11 and 15.3.2: MTRRs and machine-check banks, which KVM keeps but does not list.
 */
#define MTRR_VARIABLE  0x200u
#define MTRR_NVARIABLE 16 /* bases and masks of 8 ranges: KVM's */
#define MTRR_DEFAULT   0x2ffu
#define MCG_CAP        0x179u
#define MCG_CAP_BANKS  0xffu
#define MC_BANKS       0x400u
#define MC_PER_BANK    4 /* CTL, STATUS, ADDR, MISC */

static const uint32_t mtrr_fixed[] = {0x250, 0x258, 0x259, 0x268, 0x269, 0x26a,
                                      0x26b, 0x26c, 0x26d, 0x26e, 0x26f};

static struct kvm_msrs *allocate(uint32_t count, struct error *err)
{
    struct kvm_msrs *msrs = calloc(1, sizeof(*msrs) + count * sizeof(msrs->entries[0]));

    if (!msrs)
        (void)error_set(err, ENOMEM, "no memory for MSRs");
    return msrs;
}

/* Listed, but no state: the TSC has an order of its own, Hyper-V's clocks are read-only or run by
 * themselves. */
static bool is_clock(uint32_t index)
{
    return index == MSR_TSC || index == MSR_TSC_DEADLINE || index == HV_TIME_REF_COUNT ||
           index == HV_VP_RUNTIME;
}

static int read_list(const struct kvm *kvm, struct vcpu_state_msrs *out, struct error *err)
{
    struct kvm_msr_list *list =
        calloc(1, sizeof(*list) + VCPU_STATE_MAX_MSRS * sizeof(list->indices[0]));
    int ret;

    if (!list)
        return error_set(err, ENOMEM, "no memory for the MSR list");
    list->nmsrs = VCPU_STATE_MAX_MSRS;
    ret = KVM_IOCTL(kvm->fd, KVM_GET_MSR_INDEX_LIST, list, err);
    out->count = 0;
    for (uint32_t i = 0; !ret && i < list->nmsrs; i++) {
        if (!is_clock(list->indices[i]))
            out->index[out->count++] = list->indices[i];
    }
    free(list);
    return ret;
}

static void add(struct vcpu_state_msrs *msrs, uint32_t index)
{
    for (uint32_t i = 0; i < msrs->count; i++) {
        if (msrs->index[i] == index)
            return;
    }
    if (msrs->count < VCPU_STATE_MAX_MSRS)
        msrs->index[msrs->count++] = index;
}

static void add_unlisted(int vcpu_fd, struct vcpu_state_msrs *msrs)
{
    uint64_t capabilities = 0;

    for (uint32_t i = 0; i < MTRR_NVARIABLE; i++)
        add(msrs, MTRR_VARIABLE + i);
    for (size_t i = 0; i < sizeof(mtrr_fixed) / sizeof(mtrr_fixed[0]); i++)
        add(msrs, mtrr_fixed[i]);
    add(msrs, MTRR_DEFAULT);
    (void)msr_read(vcpu_fd, MCG_CAP, &capabilities, NULL);
    for (uint32_t i = 0; i < (capabilities & MCG_CAP_BANKS) * MC_PER_BANK; i++)
        add(msrs, MC_BANKS + i);
}

int vcpu_state_list_msrs(const struct kvm *kvm, int vcpu_fd, struct vcpu_state_msrs *msrs,
                         struct error *err)
{
    uint32_t kept = 0;
    int ret = read_list(kvm, msrs, err);

    if (ret)
        return ret;
    add_unlisted(vcpu_fd, msrs);
    for (uint32_t i = 0; i < msrs->count; i++) {
        uint64_t value;

        if (msr_read(vcpu_fd, msrs->index[i], &value, NULL) == 0)
            msrs->index[kept++] = msrs->index[i];
    }
    msrs->count = kept;
    return 0;
}

static void put_msrs(struct state_writer *writer, const struct kvm_msrs *msrs)
{
    uint32_t cells[VCPU_STATE_MAX_MSRS * CELLS_PER_MSR];

    for (uint32_t i = 0; i < msrs->nmsrs; i++) {
        cells[i * CELLS_PER_MSR] = msrs->entries[i].index;
        cells[i * CELLS_PER_MSR + 1] = (uint32_t)(msrs->entries[i].data >> 32);
        cells[i * CELLS_PER_MSR + 2] = (uint32_t)msrs->entries[i].data;
    }
    state_put_cells(writer, PROPERTY, cells, (size_t)msrs->nmsrs * CELLS_PER_MSR);
}

int vcpu_state_save_msrs(const struct vcpu_state_msrs *list, int vcpu_fd,
                         struct state_writer *writer, struct error *err)
{
    struct kvm_msrs *msrs = allocate(list->count, err);
    int ret;

    if (!msrs)
        return -ENOMEM;
    msrs->nmsrs = list->count;
    for (uint32_t i = 0; i < list->count; i++)
        msrs->entries[i].index = list->index[i];
    ret = KVM_IOCTL(vcpu_fd, KVM_GET_MSRS, msrs, err);
    if (ret >= 0 && (uint32_t)ret != list->count)
        ret = error_set(err, EIO, "KVM_GET_MSRS: MSR 0x%" PRIx32 " cannot be read any more",
                        list->index[ret]);
    if (ret >= 0) {
        put_msrs(writer, msrs);
        ret = 0;
    }
    free(msrs);
    return ret;
}

/* Sets all; what KVM refuses is skipped where it is 0. */
static int set_msrs(int vcpu_fd, struct kvm_msrs *msrs, struct error *err)
{
    uint32_t left = msrs->nmsrs;

    while (left) {
        const struct kvm_msr_entry *refused;
        int done;

        msrs->nmsrs = left;
        done = KVM_IOCTL(vcpu_fd, KVM_SET_MSRS, msrs, err);
        if (done < 0)
            return done;
        if ((uint32_t)done == left)
            return 0;
        refused = &msrs->entries[done];
        if (refused->data)
            return error_set(err, ENOTSUP,
                             "this host's KVM does not take MSR 0x%" PRIx32 " = 0x%" PRIx64,
                             refused->index, (uint64_t)refused->data);
        left -= (uint32_t)done + 1;
        memmove(&msrs->entries[0], refused + 1, left * sizeof(msrs->entries[0]));
    }
    return 0;
}

int vcpu_state_load_msrs(int vcpu_fd, struct state_reader *node, struct error *err)
{
    const size_t each = CELLS_PER_MSR * sizeof(uint32_t);
    struct kvm_msrs *msrs;
    const uint8_t *data;
    size_t bytes;
    int ret = state_get_bytes(node, PROPERTY, VCPU_STATE_MAX_MSRS * each, &data, &bytes, err);

    if (ret)
        return ret;
    if (bytes % each != 0)
        return error_set(err, EPROTO, "saved state: /%s/" PROPERTY ": %zu bytes are not triples",
                         node->name, bytes);
    msrs = allocate((uint32_t)(bytes / each), err);
    if (!msrs)
        return -ENOMEM;
    msrs->nmsrs = (uint32_t)(bytes / each);
    for (uint32_t i = 0; i < msrs->nmsrs; i++, data += each) {
        msrs->entries[i].index = state_cell(data);
        msrs->entries[i].data = (uint64_t)state_cell(data + sizeof(uint32_t)) << 32 |
                                state_cell(data + 2 * sizeof(uint32_t));
    }
    ret = set_msrs(vcpu_fd, msrs, err);
    free(msrs);
    return ret;
}
