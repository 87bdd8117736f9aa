/* SPDX-License-Identifier: MIT
 *
 * State of the in-kernel interrupt controllers and timer: nodes /pic-master, /pic-slave, /ioapic
 * and /pit. No vCPU may run. */
#ifndef VMM_X86_IRQCHIP_STATE_H
#define VMM_X86_IRQCHIP_STATE_H

#include "vmm/base/error.h"
#include "vmm/state.h"

/* As firmware leaves the two 8259s: every line masked. KVM's start open and would deliver the first
 * interrupt to a guest that uses the IO-APIC only as vector 0 to 15, which are exceptions. */
int irqchip_reset(int vm_fd, struct error *err);

/* The timer before the controllers that it feeds: a tick in between is seen twice, not lost. */
int irqchip_state_save(int vm_fd, struct state_writer *writer, struct error *err);
int irqchip_state_load(int vm_fd, struct state_reader *root, struct error *err);

#endif
