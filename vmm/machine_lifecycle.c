/* SPDX-License-Identifier: MIT
 *
 * From created to running, paused, moved and stopped. The state changes under the machine's lock;
 * vCPUs are started and awaited outside it, for they take it themselves when the guest ends. */
#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "vmm/loader.h"
#include "vmm/machine_internal.h"
#include "vmm/vcpu_throttle.h"
#include "vmm/x86/acpi.h"
#include "vmm/x86/reset.h"

static const char *state_name(enum machine_state state)
{
    static const char *const names[] = {
        [MACHINE_CREATED] = "not started", [MACHINE_RUNNING] = "running",
        [MACHINE_PAUSED] = "paused",       [MACHINE_MOVED] = "moved to another host",
        [MACHINE_STOPPED] = "stopped",
    };

    return names[state];
}

enum machine_state machine_state(const struct machine *machine)
{
    return __atomic_load_n(&machine->state, __ATOMIC_ACQUIRE);
}

/* Under the lock; readers need none. */
static void set_state(struct machine *machine, enum machine_state state)
{
    __atomic_store_n(&machine->state, state, __ATOMIC_RELEASE);
}

static int wrong_state(const struct machine *machine, const char *verb, struct error *err)
{
    if (machine->state == MACHINE_STOPPED)
        return error_set(err, ESHUTDOWN, "cannot %s: the guest ended (%.300s)", verb,
                         machine->exit.reason);
    return error_set(err, machine->state == MACHINE_MOVED ? ESHUTDOWN : EBUSY,
                     "cannot %s: the guest is %s", verb, state_name(machine->state));
}

int machine_require(struct machine *machine, enum machine_state wanted, const char *verb,
                    struct error *err)
{
    int ret = 0;

    pthread_mutex_lock(&machine->lock);
    if (machine->state != wanted)
        ret = wrong_state(machine, verb, err);
    pthread_mutex_unlock(&machine->lock);
    return ret;
}

static int change_state(struct machine *machine, enum machine_state from, enum machine_state to,
                        const char *verb, struct error *err)
{
    bool refused = false;
    int ret = 0;

    pthread_mutex_lock(&machine->lock);
    if (machine->state == from) {
        set_state(machine, to);
        if (to == MACHINE_RUNNING) {
            refused = machine->input_refused;
            machine->input_refused = false;
        }
    } else {
        ret = wrong_state(machine, verb, err);
    }
    pthread_mutex_unlock(&machine->lock);
    if (refused)
        machine_signal(machine);
    return ret;
}

void machine_signal(struct machine *machine)
{
    const uint64_t one = 1;

    /* Fails only where the counter is full, and then it is readable already. */
    ssize_t ignored = write(machine->event_fd, &one, sizeof(one));

    (void)ignored;
}

void machine_event_ack(struct machine *machine)
{
    uint64_t count;
    ssize_t ignored = read(machine->event_fd, &count, sizeof(count));

    (void)ignored;
}

void machine_end(struct machine *machine, enum machine_exit_kind kind, uint32_t code,
                 const char *reason)
{
    pthread_mutex_lock(&machine->lock);
    if (machine->exit.kind == MACHINE_EXIT_NONE) {
        machine->exit.kind = kind;
        machine->exit.code = code;
        (void)snprintf(machine->exit.reason, sizeof(machine->exit.reason), "%s", reason);
        set_state(machine, MACHINE_STOPPED);
    }
    pthread_mutex_unlock(&machine->lock);
    vcpu_set_request_park(&machine->vcpus);
    machine_signal(machine);
}

int machine_load(struct machine *machine, const struct machine_boot *boot, struct error *err)
{
    struct loader_request request = {
        .kernel = boot->kernel,
        .initrd = boot->initrd,
        .load_address = boot->load_address,
        .bootargs = machine->description.bootargs,
        .tree = {.data = machine->fdt, .bytes = machine->fdt_bytes},
    };
    uint8_t *tables = NULL;
    struct loader_entry entry;
    int ret = machine_require(machine, MACHINE_CREATED, "load an image", err);

    if (!ret)
        ret = acpi_build(machine->description.ncpus, LOADER_ACPI_GPA, &tables, &request.acpi.bytes,
                         err);
    if (ret)
        return ret;
    request.acpi.data = tables;
    ret = loader_load(&machine->memory, &request, &entry, err);
    free(tables);
    if (!ret)
        ret = reset_boot_vcpu(machine->vcpus.vcpu[0].fd, &entry, err);
    if (!ret)
        machine->loaded = true;
    return ret;
}

int machine_start(struct machine *machine, struct error *err)
{
    int ret;

    if (!machine->loaded)
        return error_set(err, EINVAL, "cannot start: no image is loaded");
    ret = change_state(machine, MACHINE_CREATED, MACHINE_RUNNING, "start", err);
    if (!ret)
        vcpu_set_run(&machine->vcpus);
    return ret;
}

int machine_pause(struct machine *machine, struct error *err)
{
    int ret;

    if (machine_state(machine) == MACHINE_PAUSED)
        return 0;
    ret = machine_require(machine, MACHINE_RUNNING, "pause", err);
    if (ret)
        return ret;
    vcpu_set_park(&machine->vcpus);
    return change_state(machine, MACHINE_RUNNING, MACHINE_PAUSED, "pause", err);
}

int machine_resume(struct machine *machine, struct error *err)
{
    int ret = change_state(machine, MACHINE_PAUSED, MACHINE_RUNNING, "resume", err);

    if (ret)
        return ret;
    /* Tells a guest with kvmclock that it stood still, so that its watchdogs do not bark. Refused
     * (EINVAL) where the guest uses no kvmclock. api.rst 4.71 KVM_KVMCLOCK_CTRL. */
    for (unsigned i = 0; i < machine->vcpus.ncpus; i++)
        (void)KVM_IOCTL(machine->vcpus.vcpu[i].fd, KVM_KVMCLOCK_CTRL, NULL, NULL);
    vcpu_set_run(&machine->vcpus);
    return 0;
}

int machine_throttle(struct machine *machine, unsigned percent, struct error *err)
{
    unsigned each[MACHINE_MAX_CPUS];
    uint64_t did[MACHINE_MAX_CPUS] = {0};
    uint64_t most = 0;

    for (unsigned i = 0; machine->rings && i < machine->vcpus.ncpus; i++) {
        uint64_t now = dirty_rings_harvested(machine->rings, i);

        /* What it would have done at full speed: else whoever was slowed would look innocent. */
        did[i] = (now - machine->dirtied[i]) * 100 / (100 - machine->vcpus.vcpu[i].throttle);
        machine->dirtied[i] = now;
        most = did[i] > most ? did[i] : most;
    }
    for (unsigned i = 0; i < machine->vcpus.ncpus; i++)
        each[i] = most ? (unsigned)((double)percent * (double)did[i] / (double)most) : percent;
    return vcpu_throttle_set(&machine->vcpus, each, err);
}

int machine_restored(struct machine *machine, struct error *err)
{
    return change_state(machine, MACHINE_CREATED, MACHINE_PAUSED, "restore", err);
}

int machine_mark_moved(struct machine *machine, struct error *err)
{
    return change_state(machine, MACHINE_PAUSED, MACHINE_MOVED, "hand the guest over", err);
}

size_t machine_console_take(struct machine *machine, uint8_t *buffer, size_t bytes)
{
    return serial_take(&machine->serial, buffer, bytes);
}

size_t machine_console_room(struct machine *machine)
{
    size_t room = 0;

    pthread_mutex_lock(&machine->lock);
    if (machine->state == MACHINE_RUNNING)
        room = serial_room(&machine->serial);
    else
        machine->input_refused = true;
    pthread_mutex_unlock(&machine->lock);
    return room;
}

/* Only a running guest takes input: what a paused one took after its state was saved, or a created
 * one before it is restored, would be lost. */
size_t machine_console_give(struct machine *machine, const uint8_t *buffer, size_t bytes)
{
    size_t given = 0;

    pthread_mutex_lock(&machine->lock);
    if (machine->state == MACHINE_RUNNING)
        given = serial_give(&machine->serial, buffer, bytes);
    else
        machine->input_refused = bytes > 0;
    pthread_mutex_unlock(&machine->lock);
    return given;
}
