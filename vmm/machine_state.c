/* SPDX-License-Identifier: MIT
 *
 * The whole machine but its RAM, as one tree. */
#include <errno.h>
#include <inttypes.h>

#include "vmm/base/log.h"
#include "vmm/machine_internal.h"
#include "vmm/x86/clock_state.h"
#include "vmm/x86/irqchip_state.h"

#define STATE_COMPATIBLE "pageferry,state-v1"

/* Upstream first: a device before the controller that its line goes to, that before the vCPU, so
 * that what happens meanwhile is seen twice at worst. The timers of the kernel run on while the
 * vCPUs stand. */
static int save(struct machine *machine, struct state_writer *writer, struct error *err)
{
    uint32_t mp_state[MACHINE_MAX_CPUS];
    unsigned ncpus = machine->vcpus.ncpus;
    int ret = 0;

    for (unsigned i = 0; !ret && i < ncpus; i++)
        ret = vcpu_state_mp_state(machine->vcpus.vcpu[i].fd, &mp_state[i], err);
    if (ret)
        return ret;
    state_put_u32(writer, "cpus", ncpus);
    serial_save(&machine->serial, writer);
    probe_save(&machine->probe, writer);
    exit_port_save(&machine->exit_port, writer);
    ret = irqchip_state_save(machine->vm_fd, writer, err);
    for (unsigned i = 0; !ret && i < ncpus; i++)
        ret = vcpu_state_save(machine->kvm, &machine->msrs, machine->vcpus.vcpu[i].fd, i,
                              mp_state[i], writer, err);
    if (!ret)
        ret = clock_state_save(machine->vm_fd, writer, err);
    return ret;
}

int machine_save(struct machine *machine, void **fdt, size_t *fdt_bytes, struct error *err)
{
    struct state_writer writer;
    int ret = machine_require(machine, MACHINE_PAUSED, "save", err);

    if (!ret)
        ret = state_writer_begin(&writer, STATE_COMPATIBLE, err);
    if (ret)
        return ret;
    ret = save(machine, &writer, err);
    if (ret) {
        state_writer_abort(&writer);
        return ret;
    }
    return state_writer_finish(&writer, fdt, fdt_bytes, err);
}

static int load_cpus(struct machine *machine, struct vcpu_state_time *time,
                     struct state_reader *root, struct error *err)
{
    unsigned ncpus = machine->vcpus.ncpus;
    uint32_t saved;
    int ret = state_get_u32(root, "cpus", &saved, err);

    if (!ret && saved != ncpus)
        ret = error_set(err, EPROTO, "saved state: it has %" PRIu32 " vCPUs, the machine has %u",
                        saved, ncpus);
    for (unsigned i = 0; !ret && i < ncpus; i++)
        ret = vcpu_state_load(machine->kvm, machine->vcpus.vcpu[i].fd, i, time, root, err);
    if (!ret && time->tsc_ignored)
        log_warning("this host's KVM does not let the guest's TSC be set: a guest that reads time "
                    "from it sees a leap");
    return ret;
}

/* Devices last: their lines are raised again into controllers that are complete. */
static int load(struct machine *machine, struct state_reader *root, struct error *err)
{
    struct clock_state clock;
    struct vcpu_state_time time = {.tsc_khz = machine->description.tsc_khz, .clock = &clock};
    int ret = irqchip_state_load(machine->vm_fd, root, err);

    if (!ret)
        ret = clock_state_load(&clock, root, err);
    if (!ret)
        ret = clock_state_apply(machine->kvm, machine->vm_fd, time.tsc_khz, &clock, err);
    if (!ret)
        ret = load_cpus(machine, &time, root, err);
    if (!ret)
        ret = clock_state_apply(machine->kvm, machine->vm_fd, time.tsc_khz, &clock, err);
    if (!ret)
        ret = exit_port_load(&machine->exit_port, root, err);
    if (!ret)
        ret = probe_load(&machine->probe, root, err);
    if (!ret)
        ret = serial_load(&machine->serial, root, err);
    if (!ret)
        ret = state_close(root, err);
    return ret;
}

int machine_restore(struct machine *machine, const void *fdt, size_t fdt_bytes, struct error *err)
{
    struct state_reader root;
    int ret = machine_require(machine, MACHINE_CREATED, "restore", err);

    if (!ret)
        ret = state_open(&root, fdt, fdt_bytes, STATE_COMPATIBLE, err);
    if (!ret)
        ret = load(machine, &root, err);
    if (ret)
        return ret;
    vcpu_set_trial(&machine->vcpus);
    return machine_restored(machine, err);
}
