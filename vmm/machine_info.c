/* SPDX-License-Identifier: MIT
 *
 * What is known about a machine and about the host that is to run it. */
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "vmm/base/size.h"
#include "vmm/machine_internal.h"
#include "vmm/x86/cpuid.h"
#include "vmm/x86/registers.h"

/* Two measurements of one oscillator differ by less; NTP corrects as much. */
#define TSC_TOLERANCE_PPM 250

static bool same_frequency(uint64_t a, uint64_t b)
{
    uint64_t difference = a > b ? a - b : b - a;

    return difference <=
           a / 1000000 * TSC_TOLERANCE_PPM + a % 1000000 * TSC_TOLERANCE_PPM / 1000000;
}

int machine_host_cpu(const struct kvm *kvm, const char *cpu_spec,
                     struct machine_description *description, struct error *err)
{
    description->tsc_khz = kvm->tsc_khz;
    return cpuid_describe_host(kvm, cpu_spec, description, err);
}

static int check_tsc(const struct kvm *kvm, const struct machine_description *description,
                     struct error *err)
{
    if (!description->tsc_khz || !kvm->tsc_khz || kvm->tsc_control ||
        same_frequency(description->tsc_khz, kvm->tsc_khz))
        return 0;
    return error_set(err, ENOTSUP,
                     "the guest's TSC runs at %" PRIu64
                     " kHz, this host's at %u kHz, and this host "
                     "cannot scale it (KVM_CAP_TSC_CONTROL)",
                     description->tsc_khz, kvm->tsc_khz);
}

static int check_memory(const struct machine_description *description, struct error *err)
{
    struct sysinfo info;
    uint64_t have;
    char wanted_text[16], have_text[16];

    if (sysinfo(&info))
        return 0; /* only a courtesy: mapping the memory is the real test */
    have = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
    if (description->memory_bytes <= have)
        return 0;
    return error_set(err, ENOTSUP, "the guest has %s of memory, this host %s with swap",
                     size_format(description->memory_bytes, wanted_text, sizeof(wanted_text)),
                     size_format(have, have_text, sizeof(have_text)));
}

int machine_check(const struct kvm *kvm, const struct machine_description *description,
                  struct error *err)
{
    int ret;

    if (description->ncpus > kvm->max_vcpus)
        return error_set(err, ENOTSUP, "the guest has %u vCPUs, this host's KVM allows %u",
                         description->ncpus, kvm->max_vcpus);
    ret = check_tsc(kvm, description, err);
    if (!ret)
        ret = check_memory(description, err);
    if (!ret)
        ret = cpuid_check(kvm, description, err);
    return ret;
}

int machine_set_tsc_khz(struct machine *machine, struct error *err)
{
    uint64_t khz = machine->description.tsc_khz;
    int ret = 0;

    if (!khz || !machine->kvm->tsc_control || same_frequency(khz, machine->kvm->tsc_khz))
        return 0;
    for (unsigned i = 0; !ret && i < machine->vcpus.ncpus; i++)
        ret = KVM_IOCTL(machine->vcpus.vcpu[i].fd, KVM_SET_TSC_KHZ, (void *)(uintptr_t)khz, err);
    return ret;
}

const struct machine_exit *machine_exit(const struct machine *machine)
{
    return &machine->exit;
}

const void *machine_fdt(const struct machine *machine, size_t *fdt_bytes)
{
    *fdt_bytes = machine->fdt_bytes;
    return machine->fdt;
}

struct memory *machine_memory(struct machine *machine)
{
    return &machine->memory;
}

struct dirty_log_vm machine_dirty_log(struct machine *machine)
{
    return (struct dirty_log_vm){.kvm = machine->kvm,
                                 .vm_fd = machine->vm_fd,
                                 .memory = &machine->memory,
                                 .rings = machine->rings};
}

int machine_vm_fd(const struct machine *machine)
{
    return machine->vm_fd;
}

unsigned machine_ncpus(const struct machine *machine)
{
    return machine->description.ncpus;
}

uint64_t machine_unmapped_accesses(const struct machine *machine)
{
    return bus_unmapped_accesses(&machine->bus);
}

int machine_exit_trace(struct machine *machine, struct exit_trace *merged, struct error *err)
{
    if (!machine->exit_trace)
        return error_set(err, ENOENT,
                         "exits are not counted: start the guest's pageferry with --trace exits");
    /* One vCPU ended the guest; the others, and its own last exit, may be on their way. */
    if (machine_state(machine) == MACHINE_STOPPED && machine->has_vcpus)
        vcpu_set_park(&machine->vcpus);
    memset(merged, 0, sizeof(*merged));
    for (unsigned i = 0; i < machine->description.ncpus; i++)
        exit_trace_merge(merged, &machine->exit_trace[i]);
    return 0;
}

const struct bus *machine_bus(const struct machine *machine)
{
    return &machine->bus;
}

int machine_event_fd(const struct machine *machine)
{
    return machine->event_fd;
}

int machine_registers(struct machine *machine, unsigned cpu, char *text, size_t text_bytes,
                      struct error *err)
{
    enum machine_state state = machine_state(machine);

    if (cpu >= machine->description.ncpus)
        return error_set(err, EINVAL, "there is no vCPU %u: the guest has %u", cpu,
                         machine->description.ncpus);
    if (state == MACHINE_MOVED || !machine->has_vcpus)
        return error_set(err, ESHUTDOWN, "the guest has moved, its registers with it");
    if (state == MACHINE_RUNNING)
        return error_set(err, EBUSY, "the guest is running: pause it first");
    if (state == MACHINE_STOPPED)
        vcpu_set_park(
            &machine->vcpus); /* one vCPU ended the guest; the others may be on their way */
    return registers_text(machine->vcpus.vcpu[cpu].fd, cpu, text, text_bytes, err);
}
