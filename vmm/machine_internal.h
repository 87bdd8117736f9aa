/* SPDX-License-Identifier: MIT
 *
 * struct machine, for the machine_*.c files only. */
#ifndef VMM_MACHINE_INTERNAL_H
#define VMM_MACHINE_INTERNAL_H

#include <pthread.h>

#include "vmm/bus.h"
#include "vmm/device/exit_port.h"
#include "vmm/device/probe.h"
#include "vmm/device/serial.h"
#include "vmm/machine.h"
#include "vmm/machine_debug_internal.h"
#include "vmm/vcpu.h"
#include "vmm/x86/vcpu_state.h"

struct machine {
    const struct kvm *kvm;
    struct machine_description description;
    void *fdt;
    size_t fdt_bytes;
    int vm_fd;
    int event_fd;

    /* What is there to be torn down. */
    bool has_memory, has_vcpus, has_serial, has_probe;

    struct memory memory;
    struct dirty_rings *rings;          /* NULL: the dirty log is a bitmap */
    uint64_t dirtied[MACHINE_MAX_CPUS]; /* entries of each ring at the last machine_throttle() */
    struct bus bus;
    struct vcpu_set vcpus;
    struct exit_trace *exit_trace; /* one for each vCPU; NULL: exits are not counted */
    struct serial serial;
    struct exit_port exit_port;
    struct probe probe;
    struct vcpu_state_msrs msrs;
    struct machine_debug debug;

    pthread_mutex_t lock; /* the following */
    enum machine_state state;
    bool loaded;        /* the boot vCPU is at an image's entry */
    bool input_refused; /* machine_console_give() came while the guest did not run */
    struct machine_exit exit;
};

/* Makes machine_event_fd() readable. Any thread. */
void machine_signal(struct machine *machine);

/* The guest ended: state stopped, first reason wins, all vCPUs are told to park. vCPU threads. */
void machine_end(struct machine *machine, enum machine_exit_kind kind, uint32_t code,
                 const char *reason);

/* 0 where the machine is in `wanted`; else -ESHUTDOWN or -EBUSY with a line. */
int machine_require(struct machine *machine, enum machine_state wanted, const char *verb,
                    struct error *err);

/* created -> paused, unless the guest ended on its trial entry. */
int machine_restored(struct machine *machine, struct error *err);

/* KVM_SET_TSC_KHZ where the guest's frequency is not the host's. */
int machine_set_tsc_khz(struct machine *machine, struct error *err);

#endif
