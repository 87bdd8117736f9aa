/* SPDX-License-Identifier: MIT */
#include "tools/writer_vm.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/writer_vm_internal.h"

/* Pages that VMX needs (api.rst 4.40, 4.43): below 4 GiB, where the writer has nothing. */
#define IDENTITY_MAP_GPA 0xfffbc000ull
#define TSS_GPA          0xfffbd000ull

static void on_end(void *opaque, unsigned cpu, enum vcpu_end end, const char *reason)
{
    struct writer_vm *vm = opaque;

    (void)cpu;
    (void)end;
    pthread_mutex_lock(&vm->lock);
    if (!vm->ended)
        (void)error_set(&vm->why, EIO, "%s", reason);
    vm->ended = true;
    pthread_mutex_unlock(&vm->lock);
    vcpu_set_request_park(&vm->vcpus);
}

static int create_vm(struct writer_vm *vm, const struct writer_vm_config *config, struct error *err)
{
    uint64_t identity_map = IDENTITY_MAP_GPA;
    int ret = KVM_IOCTL(vm->kvm->fd, KVM_CREATE_VM, NULL, err);

    if (ret < 0)
        return ret;
    vm->vm_fd = ret;
    ret = KVM_IOCTL(vm->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map, err);
    if (!ret)
        ret = KVM_IOCTL(vm->vm_fd, KVM_SET_TSS_ADDR, (void *)(uintptr_t)TSS_GPA, err);
    if (!ret && config->dirty_ring_entries)
        ret = dirty_rings_open(&vm->rings, vm->kvm, vm->vm_fd, vm->ncpus,
                               config->dirty_ring_entries, err);
    return ret;
}

static int create_memory(struct writer_vm *vm, const struct writer_vm_config *config,
                         struct error *err)
{
    struct memory_region ranges[MEMORY_MAX_REGIONS] = {{0}};
    int ret = writer_layout_plan(&vm->layout, config, ranges, err);

    if (!ret)
        ret = memory_create(&vm->memory, ranges, vm->nslots + 1, config->backing, err);
    if (ret)
        return ret;
    vm->has_memory = true;
    writer_layout_fill(&vm->layout, &vm->memory);
    return memory_set_slots(&vm->memory, vm->vm_fd, false, err);
}

static int create_vcpus(struct writer_vm *vm, struct error *err)
{
    const struct vcpu_events events = {.end = on_end, .opaque = vm};
    int khz;
    int ret;

    bus_init(&vm->bus);
    ret =
        vcpu_set_open(&vm->vcpus, vm->kvm, vm->vm_fd, vm->ncpus, &vm->bus, vm->rings, &events, err);
    if (ret)
        return ret;
    vm->has_vcpus = true;
    for (unsigned i = 0; !ret && i < vm->ncpus; i++) {
        gpa_t mailbox = vm->layout.mailbox + (gpa_t)i * MEMORY_PAGE_BYTES;

        vm->mailbox[i] = memory_at(&vm->memory, mailbox, MEMORY_PAGE_BYTES);
        ret = writer_vcpu_reset(vm, i, err);
    }
    if (ret)
        return ret;
    khz = ioctl(vm->vcpus.vcpu[0].fd, KVM_GET_TSC_KHZ, NULL);
    vm->tsc_khz = khz > 0 ? (unsigned)khz : 0;
    return 0;
}

int writer_vm_open(struct writer_vm **out, const struct kvm *kvm,
                   const struct writer_vm_config *config, struct error *err)
{
    struct writer_vm *vm = calloc(1, sizeof(*vm));
    int ret;

    *out = NULL;
    if (!vm)
        return error_set(err, ENOMEM, "no memory for a writer VM");
    pthread_mutex_init(&vm->lock, NULL);
    vm->kvm = kvm;
    vm->vm_fd = -1;
    vm->nslots = config->nslots;
    vm->ncpus = config->ncpus;
    vm->privilege = config->privilege;
    vm->max_list = config->max_list;
    vm->cancelled = config->cancelled;
    vm->held = true;
    ret = create_vm(vm, config, err);
    if (!ret)
        ret = create_memory(vm, config, err);
    if (!ret)
        ret = create_vcpus(vm, err);
    if (ret) {
        writer_vm_close(vm);
        return ret;
    }
    vm->log = (struct dirty_log_vm){
        .kvm = kvm, .vm_fd = vm->vm_fd, .memory = &vm->memory, .rings = vm->rings};
    *out = vm;
    return 0;
}

void writer_vm_close(struct writer_vm *vm)
{
    if (!vm)
        return;
    if (vm->has_vcpus)
        vcpu_set_close(&vm->vcpus);
    dirty_rings_close(vm->rings);
    if (vm->vm_fd >= 0)
        close(vm->vm_fd);
    if (vm->has_memory)
        memory_destroy(&vm->memory);
    pthread_mutex_destroy(&vm->lock);
    free(vm);
}

const struct dirty_log_vm *writer_vm_log(const struct writer_vm *vm)
{
    return &vm->log;
}

struct memory *writer_vm_memory(struct writer_vm *vm)
{
    return &vm->memory;
}

int writer_vm_cpu_fd(const struct writer_vm *vm, unsigned cpu)
{
    return vm->vcpus.vcpu[cpu].fd;
}

gpa_t writer_vm_gpa(const struct writer_vm *vm, unsigned slot, uint64_t page)
{
    return vm->memory.region[slot].gpa + page * MEMORY_PAGE_BYTES;
}

int writer_vm_pin(struct writer_vm *vm, unsigned cpu, int host_cpu, struct error *err)
{
    cpu_set_t set;
    int code;

    if (cpu >= vm->ncpus || host_cpu < 0 || host_cpu >= CPU_SETSIZE)
        return error_set(err, EINVAL, "vCPU %u cannot be pinned to host CPU %d", cpu, host_cpu);
    CPU_ZERO(&set);
    CPU_SET((size_t)host_cpu, &set);
    code = pthread_setaffinity_np(vm->vcpus.vcpu[cpu].thread, sizeof(set), &set);
    return code ? error_set(err, code, "vCPU %u cannot be pinned to host CPU %d: %s", cpu, host_cpu,
                            strerror(code))
                : 0;
}
