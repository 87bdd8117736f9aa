/* SPDX-License-Identifier: MIT
 *
 * Time across hosts. Where both ends can relate guest clock, real time and TSC in one reading, TSC
 * offsets are computed as Documentation/virt/kvm/devices/vcpu.rst has it (4.1, "TSC offset");
 * elsewhere the TSC is set to its saved value plus the real time that passed. */
#include "vmm/x86/clock_state.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>
#include <time.h>

#include "vmm/base/clock.h"
#include "vmm/x86/msr.h"

#define CLOCK_NODE    "clock"
#define KHZ_PER_GHZ   1000000u /* cycles = ns * kHz / 10^6 */
#define TSC_SLACK_NS  (5 * CLOCK_NS_PER_MS)
#define CLOCK_RELATED (KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC)

static uint64_t realtime_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static uint64_t elapsed_ns(uint64_t since_ns, uint64_t now_ns)
{
    uint64_t elapsed = now_ns > since_ns ? now_ns - since_ns : 0;

    return elapsed < CLOCK_STATE_MAX_ELAPSED_NS ? elapsed : CLOCK_STATE_MAX_ELAPSED_NS;
}

static uint64_t cycles(uint64_t ns, uint64_t khz)
{
    return (uint64_t)((unsigned __int128)ns * khz / KHZ_PER_GHZ);
}

int clock_state_save(int vm_fd, struct state_writer *writer, struct error *err)
{
    struct kvm_clock_data data;
    bool related;
    int ret;

    memset(&data, 0, sizeof(data));
    ret = KVM_IOCTL(vm_fd, KVM_GET_CLOCK, &data, err);
    if (ret)
        return ret;
    related = (data.flags & CLOCK_RELATED) == CLOCK_RELATED;
    state_begin_node(writer, CLOCK_NODE);
    state_put_u64(writer, "clock-ns", data.clock);
    state_put_u64(writer, "realtime-ns",
                  data.flags & KVM_CLOCK_REALTIME ? data.realtime : realtime_now_ns());
    if (related)
        state_put_u64(writer, "host-tsc", data.host_tsc);
    state_end_node(writer);
    return 0;
}

int clock_state_load(struct clock_state *clock, struct state_reader *root, struct error *err)
{
    struct state_reader node;
    int ret = state_open_node(root, CLOCK_NODE, &node, err);

    memset(clock, 0, sizeof(*clock));
    if (!ret)
        ret = state_get_u64(&node, "clock-ns", &clock->clock_ns, err);
    if (!ret)
        ret = state_get_u64(&node, "realtime-ns", &clock->realtime_ns, err);
    if (!ret && state_has(&node, "host-tsc")) {
        clock->has_host_tsc = true;
        ret = state_get_u64(&node, "host-tsc", &clock->host_tsc, err);
    }
    if (!ret)
        ret = state_close(&node, err);
    return ret;
}

int clock_state_apply(const struct kvm *kvm, int vm_fd, uint64_t tsc_khz, struct clock_state *clock,
                      struct error *err)
{
    uint64_t now_ns = realtime_now_ns(), elapsed = elapsed_ns(clock->realtime_ns, now_ns);
    struct kvm_clock_data data;
    int ret;

    memset(&data, 0, sizeof(data));
    if (kvm->clock_flags & KVM_CLOCK_REALTIME) {
        /* KVM adds what passed since data.realtime, if anything did. */
        data.flags = KVM_CLOCK_REALTIME;
        data.clock = clock->clock_ns;
        data.realtime = now_ns - elapsed;
    } else {
        data.clock = clock->clock_ns + elapsed;
    }
    ret = KVM_IOCTL(vm_fd, KVM_SET_CLOCK, &data, err);
    if (ret)
        return ret;
    memset(&data, 0, sizeof(data));
    ret = KVM_IOCTL(vm_fd, KVM_GET_CLOCK, &data, err);
    if (ret)
        return ret;
    clock->has_here = (data.flags & CLOCK_RELATED) == CLOCK_RELATED &&
                      (!kvm->tsc_control || kvm->tsc_khz == tsc_khz);
    clock->here_clock_ns = data.clock;
    clock->here_host_tsc = data.host_tsc;
    return 0;
}

static struct kvm_device_attr offset_attribute(uint64_t *offset)
{
    return (struct kvm_device_attr){.group = KVM_VCPU_TSC_CTRL,
                                    .attr = KVM_VCPU_TSC_OFFSET,
                                    .addr = (uint64_t)(uintptr_t)offset};
}

int clock_state_read_tsc(int vcpu_fd, struct clock_state_tsc *tsc, struct error *err)
{
    struct kvm_device_attr attribute = offset_attribute(&tsc->offset);
    int ret;

    memset(tsc, 0, sizeof(*tsc));
    tsc->realtime_ns = realtime_now_ns();
    ret = msr_read(vcpu_fd, MSR_TSC, &tsc->value, err);
    if (ret)
        return ret;
    tsc->has_offset = KVM_IOCTL(vcpu_fd, KVM_GET_DEVICE_ATTR, &attribute, NULL) == 0;
    return 0;
}

static int set_offset(int vcpu_fd, uint64_t tsc_khz, const struct clock_state *clock,
                      const struct clock_state_tsc *tsc, struct error *err)
{
    uint64_t passed_ns =
        clock->here_clock_ns > clock->clock_ns ? clock->here_clock_ns - clock->clock_ns : 0;
    uint64_t offset =
        clock->host_tsc + tsc->offset + cycles(passed_ns, tsc_khz) - clock->here_host_tsc;
    struct kvm_device_attr attribute = offset_attribute(&offset);

    return KVM_IOCTL(vcpu_fd, KVM_SET_DEVICE_ATTR, &attribute, err);
}

int clock_state_apply_tsc(int vcpu_fd, uint64_t tsc_khz, const struct clock_state *clock,
                          const struct clock_state_tsc *tsc, bool *ignored, struct error *err)
{
    uint64_t slack = cycles(TSC_SLACK_NS, tsc_khz);
    uint64_t before_ns, after_ns, low, high, found;
    int ret;

    if (clock->has_host_tsc && clock->has_here && tsc->has_offset && tsc_khz) {
        ret = set_offset(vcpu_fd, tsc_khz, clock, tsc, err);
    } else {
        uint64_t passed_ns = elapsed_ns(tsc->realtime_ns, realtime_now_ns());

        ret = msr_write(vcpu_fd, MSR_TSC, tsc->value + cycles(passed_ns, tsc_khz), err);
    }
    if (ret)
        return ret;
    before_ns = elapsed_ns(tsc->realtime_ns, realtime_now_ns());
    ret = msr_read(vcpu_fd, MSR_TSC, &found, err);
    if (ret)
        return ret;
    after_ns = elapsed_ns(tsc->realtime_ns, realtime_now_ns());
    low = tsc->value + cycles(before_ns, tsc_khz);
    high = tsc->value + cycles(after_ns, tsc_khz);
    *ignored = tsc_khz && (found + slack < low || found > high + slack);
    return 0;
}
