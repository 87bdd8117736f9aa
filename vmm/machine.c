/* SPDX-License-Identifier: MIT
 *
 * A machine built from its tree, and taken down. */
#include "vmm/machine.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "guest/abi.h"
#include "vmm/base/log.h"
#include "vmm/machine_internal.h"
#include "vmm/x86/cpuid.h"
#include "vmm/x86/irqchip_state.h"

/* Pages that VMX needs in the guest's address space (api.rst 4.40 KVM_SET_TSS_ADDR, three pages;
 * 4.43 KVM_SET_IDENTITY_MAP_ADDR, one): below 4 GiB, above all RAM and devices. */
#define IDENTITY_MAP_GPA 0xfffbc000ull
#define TSS_GPA          0xfffbd000ull

/* The gap below 4 GiB holds what is no RAM: the probe's window, the frame buffer, KVM's pages, the
 * interrupt controllers from 0xfec00000 on. */
_Static_assert(FRAMEBUFFER_GPA >= MEMORY_GAP_START && FRAMEBUFFER_BYTES % MEMORY_PAGE_BYTES == 0 &&
                   FRAMEBUFFER_GPA + (uint64_t)FRAMEBUFFER_BYTES <= 0xfec00000u,
               "the frame buffer lies in the gap");
_Static_assert(PROBE_MMIO + PROBE_MMIO_BYTES <= FRAMEBUFFER_GPA, "and behind the probe's window");

static void set_irq(void *opaque, unsigned irq, bool level)
{
    struct machine *machine = opaque;
    struct kvm_irq_level line = {.irq = irq, .level = level};

    /* Cannot fail: the irqchip exists, and the line is one of its inputs. */
    (void)KVM_IOCTL(machine->vm_fd, KVM_IRQ_LINE, &line, NULL);
}

static void on_console(void *opaque)
{
    machine_signal(opaque);
}

static void on_exit_port(void *opaque, uint32_t code)
{
    machine_end(opaque, MACHINE_EXIT_GUEST, code, "the guest ended itself");
}

static void on_reset(void *opaque, const char *how)
{
    struct error reason;

    (void)error_set(&reason, 0, "the guest asked %s for a reset", how);
    machine_end(opaque, MACHINE_EXIT_RESET, 0, reason.text);
}

static void on_poweroff(void *opaque)
{
    machine_end(opaque, MACHINE_EXIT_POWEROFF, 0, "the guest powered itself off");
}

static void on_vcpu_end(void *opaque, unsigned cpu, enum vcpu_end end, const char *reason)
{
    static const enum machine_exit_kind kinds[] = {
        [VCPU_END_SHUTDOWN] = MACHINE_EXIT_SHUTDOWN,
        [VCPU_END_RESET] = MACHINE_EXIT_RESET,
        [VCPU_END_ERROR] = MACHINE_EXIT_ERROR,
    };

    (void)cpu;
    machine_end(opaque, kinds[end], 0, reason);
}

static int create_vm(struct machine *machine, struct error *err)
{
    uint64_t identity_map = IDENTITY_MAP_GPA;
    /* The dummy speaker is port 0x61, whose bits gate and show timer channel 2. */
    struct kvm_pit_config pit = {.flags = KVM_PIT_SPEAKER_DUMMY};
    int ret = KVM_IOCTL(machine->kvm->fd, KVM_CREATE_VM, NULL, err);

    if (ret < 0)
        return ret;
    machine->vm_fd = ret;
    ret = KVM_IOCTL(machine->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map, err);
    if (!ret)
        ret = KVM_IOCTL(machine->vm_fd, KVM_SET_TSS_ADDR, (void *)(uintptr_t)TSS_GPA, err);
    if (!ret)
        ret = KVM_IOCTL(machine->vm_fd, KVM_CREATE_IRQCHIP, NULL, err);
    if (!ret)
        ret = irqchip_reset(machine->vm_fd, err);
    if (!ret)
        ret = KVM_IOCTL(machine->vm_fd, KVM_CREATE_PIT2, &pit, err);
    if (!ret)
        ret = vcpu_state_enable_events(machine->kvm, machine->vm_fd, err);
    return ret;
}

static int create_memory(struct machine *machine, enum memory_backing backing, struct error *err)
{
    uint64_t bytes = machine->description.memory_bytes;
    uint64_t low = bytes < MEMORY_GAP_START ? bytes : MEMORY_GAP_START;
    struct memory_region ranges[3] = {{.gpa = 0, .npages = low / MEMORY_PAGE_BYTES}};
    unsigned nranges = 1;
    int ret;

    if (bytes > low)
        ranges[nranges++] = (struct memory_region){.gpa = MEMORY_GAP_END,
                                                   .npages = (bytes - low) / MEMORY_PAGE_BYTES};
    if (machine->description.framebuffer)
        ranges[nranges++] = (struct memory_region){.gpa = FRAMEBUFFER_GPA,
                                                   .npages = FRAMEBUFFER_BYTES / MEMORY_PAGE_BYTES};
    ret = memory_create(&machine->memory, ranges, nranges, backing, err);
    if (ret)
        return ret;
    machine->has_memory = true;
    return memory_set_slots(&machine->memory, machine->vm_fd, false, err);
}

static int create_devices(struct machine *machine, struct error *err)
{
    const struct irq_line line = {.set = set_irq, .opaque = machine, .irq = GUEST_SERIAL_IRQ};
    const struct serial_events console = {.notify = on_console, .opaque = machine};
    const struct exit_port_events ends = {
        .exit = on_exit_port, .reset = on_reset, .poweroff = on_poweroff, .opaque = machine};
    int ret;

    bus_init(&machine->bus);
    ret = serial_init(&machine->serial, &machine->bus, GUEST_SERIAL_PORT, &line, &console, err);
    if (ret)
        return ret;
    machine->has_serial = true;
    ret = probe_init(&machine->probe, &machine->bus, &machine->memory, err);
    if (ret)
        return ret;
    machine->has_probe = true;
    return exit_port_init(&machine->exit_port, &machine->bus, machine->description.exit_port, &ends,
                          err);
}

static int create_vcpus(struct machine *machine, struct error *err)
{
    const struct vcpu_events events = {
        .end = on_vcpu_end, .debug = machine_debug_exit, .opaque = machine};
    int ret =
        vcpu_set_open(&machine->vcpus, machine->kvm, machine->vm_fd, machine->description.ncpus,
                      &machine->bus, machine->rings, &events, err);

    if (ret)
        return ret;
    machine->has_vcpus = true;
    for (unsigned i = 0; machine->exit_trace && i < machine->description.ncpus; i++)
        machine->vcpus.vcpu[i].trace = &machine->exit_trace[i];
    for (unsigned i = 0; !ret && i < machine->description.ncpus; i++)
        ret = cpuid_apply(machine->vcpus.vcpu[i].fd, i, &machine->description, err);
    if (!ret)
        ret = machine_set_tsc_khz(machine, err);
    if (!ret) /* now rather than while a guest stands still to be saved */
        ret = vcpu_state_list_msrs(machine->kvm, machine->vcpus.vcpu[0].fd, &machine->msrs, err);
    return ret;
}

static int create_exit_trace(struct machine *machine, struct error *err)
{
    size_t bytes = machine->description.ncpus * sizeof(*machine->exit_trace);

    machine->exit_trace = aligned_alloc(_Alignof(struct exit_trace), bytes);
    if (!machine->exit_trace)
        return error_set(err, ENOMEM, "no memory to count exits");
    memset(machine->exit_trace, 0, bytes);
    return 0;
}

static int build(struct machine *machine, const void *fdt, size_t fdt_bytes,
                 const struct machine_host *host, struct error *err)
{
    int ret = machine_tree_parse(fdt, fdt_bytes, &machine->description, err);

    if (!ret)
        ret = machine_check(machine->kvm, &machine->description, err);
    if (ret)
        return ret;
    machine->fdt = malloc(fdt_bytes);
    if (!machine->fdt)
        return error_set(err, ENOMEM, "no memory for the machine's tree");
    memcpy(machine->fdt, fdt, fdt_bytes);
    machine->fdt_bytes = fdt_bytes;
    machine->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (machine->event_fd < 0) {
        int code = errno;

        return error_set(err, code, "eventfd: %s", strerror(code));
    }
    ret = create_vm(machine, err);
    if (!ret && host->dirty_ring_entries)
        ret = dirty_rings_open(&machine->rings, machine->kvm, machine->vm_fd,
                               machine->description.ncpus, host->dirty_ring_entries, err);
    if (!ret)
        ret = create_memory(machine, host->backing, err);
    if (!ret)
        ret = create_devices(machine, err);
    if (!ret && host->trace_exits)
        ret = create_exit_trace(machine, err);
    if (!ret)
        ret = create_vcpus(machine, err);
    return ret;
}

int machine_create(struct machine **out, const struct kvm *kvm, const void *fdt, size_t fdt_bytes,
                   const struct machine_host *host, struct error *err)
{
    struct machine *machine = calloc(1, sizeof(*machine));
    int ret;

    *out = NULL;
    if (!machine)
        return error_set(err, ENOMEM, "no memory for a machine");
    pthread_mutex_init(&machine->lock, NULL);
    machine->kvm = kvm;
    machine->vm_fd = -1;
    machine->event_fd = -1;
    ret = build(machine, fdt, fdt_bytes, host, err);
    if (ret) {
        machine_destroy(machine);
        return ret;
    }
    *out = machine;
    return 0;
}

void machine_release(struct machine *machine)
{
    if (machine->has_vcpus)
        vcpu_set_close(&machine->vcpus);
    machine->has_vcpus = false;
    dirty_rings_close(machine->rings);
    machine->rings = NULL;
    if (machine->has_serial)
        serial_detach(&machine->serial);
    if (machine->vm_fd >= 0)
        close(machine->vm_fd);
    machine->vm_fd = -1;
    if (machine->has_memory)
        memory_destroy(&machine->memory);
    machine->has_memory = false;
}

void machine_destroy(struct machine *machine)
{
    if (!machine)
        return;
    machine_release(machine);
    if (machine->has_probe)
        probe_destroy(&machine->probe);
    if (machine->has_serial)
        serial_destroy(&machine->serial);
    if (machine->event_fd >= 0)
        close(machine->event_fd);
    pthread_mutex_destroy(&machine->lock);
    free(machine->exit_trace);
    free(machine->fdt);
    free(machine);
}
