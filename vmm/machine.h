/* SPDX-License-Identifier: MIT
 *
 * A machine from its device tree to its end. */
#ifndef VMM_MACHINE_H
#define VMM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/bus.h"
#include "vmm/dirty_log.h"
#include "vmm/exit_trace.h"
#include "vmm/kvm.h"
#include "vmm/loader.h"
#include "vmm/machine_tree.h"
#include "vmm/memory.h"

/*   created --start--> running <--pause/resume--> paused --mark_moved--> moved
 *      |                  |                         ^
 *      |                  +--guest ends--> stopped   |
 *      +-------------------restore------------------+
 * Lifecycle calls come from one thread at a time (the caller's lock); vCPU threads may move running
 * -> stopped by themselves at any moment. A call that does not fit the state returns -EBUSY, or
 * -ESHUTDOWN in stopped and moved, and says so. */
enum machine_state {
    MACHINE_CREATED,
    MACHINE_RUNNING,
    MACHINE_PAUSED,
    MACHINE_MOVED,   /* the guest lives elsewhere: nothing makes it run here again */
    MACHINE_STOPPED, /* the guest ended: machine_exit() says how */
};

enum machine_exit_kind {
    MACHINE_EXIT_NONE,
    MACHINE_EXIT_GUEST,    /* exit port: code is the guest's */
    MACHINE_EXIT_POWEROFF, /* ACPI's sleep control register, state S5 */
    MACHINE_EXIT_SHUTDOWN, /* triple fault, KVM_EXIT_SHUTDOWN */
    MACHINE_EXIT_RESET,    /* guest asked for a reset (keyboard controller 0xfe, port 0xcf9) */
    MACHINE_EXIT_ERROR,    /* KVM internal error, emulation failure, unknown exit */
};

struct machine_exit {
    enum machine_exit_kind kind;
    uint32_t code;                 /* MACHINE_EXIT_GUEST only */
    char reason[ERROR_TEXT_BYTES]; /* one line for people */
};

/* What belongs to this host and never enters the tree. */
struct machine_host {
    enum memory_backing backing;
    uint32_t dirty_ring_entries; /* 0: the dirty log is a bitmap; else every vCPU has a ring */
    bool trace_exits;            /* for machine_exit_trace() */
};

struct machine;

/* What this host would give a new guest: CPUID from KVM_GET_SUPPORTED_CPUID masked by `cpu_spec`
 * ("host", or "host,-avx512f,-…"), TSC frequency. Fills description->ncpuid, cpuid, tsc_khz. An
 * unknown feature name is -EINVAL with the name. */
int machine_host_cpu(const struct kvm *kvm, const char *cpu_spec,
                     struct machine_description *description, struct error *err);

/* Can this host honour the tree? Compares every CPUID feature bit, the TSC frequency, vCPU count
 * and memory; creates nothing. -ENOTSUP with the names of all missing features. */
int machine_check(const struct kvm *kvm, const struct machine_description *description,
                  struct error *err);

/* Builds VM, RAM, memslots, irqchip, PIT, vCPUs, threads (parked) and devices. Runs machine_check()
 * first. kvm is borrowed until destroy. */
int machine_create(struct machine **out, const struct kvm *kvm, const void *fdt, size_t fdt_bytes,
                   const struct machine_host *host, struct error *err);

/* Stops and joins all threads, frees everything. Any state; NULL is fine. */
void machine_destroy(struct machine *machine);

/* What a machine boots. All borrowed, until machine_load() returns. */
struct machine_boot {
    struct loader_blob kernel, initrd; /* initrd.bytes 0: none */
    uint64_t load_address;             /* kernel is flat: loaded and entered here. Else: */
#define MACHINE_LOAD_BY_IMAGE LOADER_ADDRESS_NONE
};

/* Puts images into RAM and the boot vCPU at the kernel's entry; formats and errors as in
 * loader_load(). state: created. */
int machine_load(struct machine *machine, const struct machine_boot *boot, struct error *err);

int machine_start(struct machine *machine, struct error *err); /* created -> running */
/* running -> paused: all vCPUs are signalled, then all awaited; owed I/O completed. 0 too where
 * already paused. -ESHUTDOWN where the guest ended first. */
int machine_pause(struct machine *machine, struct error *err);
int machine_resume(struct machine *machine, struct error *err);     /* paused -> running */
int machine_mark_moved(struct machine *machine, struct error *err); /* paused -> moved */

/* Takes percent (at most VCPU_THROTTLE_MAX_PERCENT) of the time from the vCPU that dirtied most
 * since the last call, and from the others in proportion where a dirty ring tells what each did;
 * else from all alike. 0: full speed. One thread at a time. */
int machine_throttle(struct machine *machine, unsigned percent, struct error *err);

/* Frees VM and RAM of a moved machine, keeps what messages need. Pointers into RAM die. */
void machine_release(struct machine *machine);

/* Complete state but RAM, as an FDT that the caller frees with free(). state: paused. Changes no
 * guest memory after it returns. */
int machine_save(struct machine *machine, void **fdt, size_t *fdt_bytes, struct error *err);

/* created -> paused, with the saved state loaded and every vCPU entered once with immediate_exit,
 * so that machine_resume() has nothing fallible left. The FDT is hostile until proven otherwise. */
int machine_restore(struct machine *machine, const void *fdt, size_t fdt_bytes, struct error *err);

enum machine_state machine_state(const struct machine *machine);
/* Valid in stopped; borrowed. */
const struct machine_exit *machine_exit(const struct machine *machine);
/* The tree it was built from; borrowed. */
const void *machine_fdt(const struct machine *machine, size_t *fdt_bytes);
struct memory *machine_memory(struct machine *machine);
int machine_vm_fd(const struct machine *machine);
/* For dirty_log_open(); borrowed from the machine. */
struct dirty_log_vm machine_dirty_log(struct machine *machine);
unsigned machine_ncpus(const struct machine *machine);
/* Accesses to unmapped ports and MMIO so far. */
uint64_t machine_unmapped_accesses(const struct machine *machine);
/* What all vCPUs left KVM_RUN for so far, here: complete where the guest stands still or has ended
 * or moved. Overwrites `merged`. Any state, not from a vCPU thread. -ENOENT where exits
 * are not counted (struct machine_host). */
int machine_exit_trace(struct machine *machine, struct exit_trace *merged, struct error *err);
/* The windows that answer the guest; borrowed. */
const struct bus *machine_bus(const struct machine *machine);

/* Readable (poll) when the machine stopped by itself or console output waits. machine_event_ack()
 * resets it. */
int machine_event_fd(const struct machine *machine);
void machine_event_ack(struct machine *machine);

/* Console. take: moves waiting output into buffer, returns bytes. give: input into the UART's
 * receive queue, returns bytes accepted; room: how many it would accept now (the rest later: space
 * is signalled through machine_event_fd). Output that the guest made before a pause belongs to this
 * host and stays takeable in every state, moved and released included. */
size_t machine_console_take(struct machine *machine, uint8_t *buffer, size_t bytes);
size_t machine_console_room(struct machine *machine);
size_t machine_console_give(struct machine *machine, const uint8_t *buffer, size_t bytes);

/* Registers of a paused or stopped machine's vCPU as lines of text in the style of QEMU's "info
 * registers". -EBUSY while it runs: the caller pauses first. */
int machine_registers(struct machine *machine, unsigned cpu, char *text, size_t text_bytes,
                      struct error *err);

#endif
