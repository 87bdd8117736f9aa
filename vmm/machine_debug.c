/* SPDX-License-Identifier: MIT
 *
 * vCPUs that run and stop for a debugger. A vCPU that stopped is held until the debugger lets it
 * run, whoever pauses and resumes the machine meanwhile. */
#include "vmm/machine_debug.h"

#include <errno.h>
#include <string.h>

#include "vmm/machine_internal.h"

bool machine_debug_hit(const struct machine *machine)
{
    return __atomic_load_n(&machine->debug.hit, __ATOMIC_ACQUIRE);
}

static void set_hit(struct machine *machine, bool hit)
{
    __atomic_store_n(&machine->debug.hit, hit, __ATOMIC_RELEASE);
}

int machine_debug_stands(struct machine *machine, unsigned cpu, struct error *err)
{
    enum machine_state state = machine_state(machine);

    if (cpu >= machine->description.ncpus)
        return error_set(err, EINVAL, "there is no vCPU %u", cpu);
    if (!machine->debug.attached)
        return error_set(err, EBUSY, "no debugger is attached");
    if (state == MACHINE_STOPPED)
        vcpu_set_park(&machine->vcpus);
    return state == MACHINE_RUNNING ? error_set(err, EBUSY, "the guest is running") : 0;
}

/* What a vCPU is to do from now on. */
static struct debug_control control_of(const struct machine_debug *debug, unsigned cpu)
{
    return (struct debug_control){.software = debug->npoints != 0,
                                  .step = debug->stepping[cpu],
                                  .hold_irq = debug->support.hold_irq,
                                  .hardware = debug->hardware};
}

/* A #DB: the debug register that it tells of, or the end of a step. */
static bool judge_db(const struct machine_debug *debug, unsigned cpu, uint64_t dr6,
                     struct machine_debug_stop *stop)
{
    for (unsigned i = 0; i < DEBUG_NHARDWARE; i++) {
        if (!debug->hardware[i].used || !(dr6 & 1u << i))
            continue;
        stop->cause = MACHINE_DEBUG_POINT;
        stop->kind = debug->hardware[i].kind;
        stop->address = debug->hardware[i].address;
        return true;
    }
    stop->cause = MACHINE_DEBUG_STEPPED;
    return debug->stepping[cpu];
}

/* A #BP: ours where the byte is, by whatever address it was reached. */
static bool judge_bp(const struct machine_debug *debug, int vcpu_fd, uint64_t pc,
                     struct machine_debug_stop *stop)
{
    gpa_t gpa;

    if (debug_translate(vcpu_fd, pc, &gpa, NULL) || !machine_debug_point_at(debug, gpa))
        return false;
    stop->cause = MACHINE_DEBUG_POINT;
    stop->kind = DEBUG_POINT_SOFTWARE;
    stop->address = pc;
    return true;
}

bool machine_debug_exit(void *opaque, unsigned cpu, const struct vcpu_debug_exit *exit)
{
    struct machine *machine = opaque;
    struct machine_debug *debug = &machine->debug;
    int fd = machine->vcpus.vcpu[cpu].fd;
    struct machine_debug_stop stop = {.cpu = cpu};
    bool ours = exit->exception == DEBUG_VECTOR_BP ? judge_bp(debug, fd, exit->pc, &stop)
                                                   : judge_db(debug, cpu, exit->dr6, &stop);

    if (!ours) {
        struct debug_control control = control_of(debug, cpu);

        /* The guest's own. Refused (EBUSY) only where another exception is on its way, which comes
         * first on a CPU, too. */
        control.inject = exit->exception;
        (void)debug_control(fd, &control, NULL);
        return false;
    }
    debug->stop[cpu] = stop;
    set_hit(machine, true);
    machine_signal(machine);
    return true;
}

int machine_debug_attach(struct machine *machine, struct error *err)
{
    struct machine_debug *debug = &machine->debug;
    enum machine_state state = machine_state(machine);

    if (state != MACHINE_CREATED && state != MACHINE_PAUSED)
        return error_set(err, EBUSY, "a debugger needs a guest that stands");
    memset(debug, 0, sizeof(*debug));
    debug->attached = true;
    return debug_probe(machine->kvm, &debug->support, err);
}

void machine_debug_detach(struct machine *machine)
{
    static const bool nobody[MACHINE_MAX_CPUS];
    const struct debug_control nothing = {.inject = 0};

    if (!machine->debug.attached || !machine->has_vcpus)
        return;
    vcpu_set_park(&machine->vcpus);
    machine_debug_remove_all(machine);
    for (unsigned i = 0; i < machine->vcpus.ncpus; i++)
        (void)debug_control(machine->vcpus.vcpu[i].fd, &nothing, NULL);
    vcpu_set_hold(&machine->vcpus, nobody);
    set_hit(machine, false);
    machine->debug.attached = false;
}

/* A watchpoint is told after the access: nothing would tell of it again. */
static bool is_owed(const struct machine_debug *debug, const struct machine_debug_stop *stop)
{
    if (stop->cause != MACHINE_DEBUG_POINT || stop->kind < DEBUG_POINT_WRITE)
        return false;
    for (unsigned i = 0; i < DEBUG_NHARDWARE; i++) {
        const struct debug_hardware *point = &debug->hardware[i];

        if (point->used && point->kind == stop->kind && point->address == stop->address)
            return true;
    }
    return false;
}

int machine_debug_run(struct machine *machine, const enum machine_debug_run *each,
                      struct error *err)
{
    struct machine_debug *debug = &machine->debug;
    bool held[MACHINE_MAX_CPUS] = {false};
    bool owed = false;
    int ret = machine_debug_stands(machine, 0, err);

    for (unsigned i = 0; !ret && i < machine->vcpus.ncpus; i++) {
        struct debug_control control;

        if (is_owed(debug, &debug->stop[i]))
            owed = true;
        else
            debug->stop[i].cause = MACHINE_DEBUG_NOTHING;
        held[i] = each[i] == MACHINE_DEBUG_HOLD;
        debug->stepping[i] = each[i] == MACHINE_DEBUG_STEP;
        control = control_of(debug, i);
        ret = debug_control(machine->vcpus.vcpu[i].fd, &control, err);
    }
    if (ret)
        return ret;
    if (owed) {
        set_hit(machine, true);
        machine_signal(machine);
        return 0;
    }
    vcpu_set_hold(&machine->vcpus, held);
    return machine_state(machine) == MACHINE_CREATED ? machine_start(machine, err)
                                                     : machine_resume(machine, err);
}

/* What cannot be seen again goes last, for it is kept: a step that ended before anything else. */
static int choose_stop(struct machine_debug *debug, unsigned ncpus)
{
    int chosen = -1;

    for (unsigned i = 0; i < ncpus; i++) {
        const struct machine_debug_stop *stop = &debug->stop[i];

        if (stop->cause == MACHINE_DEBUG_STEPPED)
            return (int)i;
        if (stop->cause != MACHINE_DEBUG_NOTHING && (chosen < 0 || !is_owed(debug, stop)))
            chosen = (int)i;
    }
    return chosen;
}

int machine_debug_stop(struct machine *machine, struct machine_debug_stop *stop, struct error *err)
{
    struct machine_debug *debug = &machine->debug;
    int chosen;
    int ret = machine_state(machine) == MACHINE_CREATED ? 0 : machine_pause(machine, err);

    *stop = (struct machine_debug_stop){.cause = MACHINE_DEBUG_NOTHING};
    if (ret)
        return ret;
    set_hit(machine, false);
    for (unsigned i = 0; i < machine->vcpus.ncpus; i++) {
        struct debug_control control;

        if (!debug->stepping[i])
            continue;
        debug->stepping[i] = false;
        control = control_of(debug, i);
        (void)debug_control(machine->vcpus.vcpu[i].fd, &control, NULL);
    }
    chosen = choose_stop(debug, machine->vcpus.ncpus);
    if (chosen >= 0) {
        *stop = debug->stop[chosen];
        debug->stop[chosen].cause = MACHINE_DEBUG_NOTHING;
    }
    return 0;
}

int machine_debug_get_registers(struct machine *machine, unsigned cpu,
                                struct debug_registers *registers, struct error *err)
{
    int ret = machine_debug_stands(machine, cpu, err);

    return ret ? ret : debug_registers_get(machine->vcpus.vcpu[cpu].fd, registers, err);
}

int machine_debug_set_registers(struct machine *machine, unsigned cpu,
                                const struct debug_registers *registers, struct error *err)
{
    int ret = machine_debug_stands(machine, cpu, err);

    return ret ? ret : debug_registers_set(machine->vcpus.vcpu[cpu].fd, registers, err);
}
