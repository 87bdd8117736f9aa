/* SPDX-License-Identifier: MIT
 *
 * The vCPUs of a machine, one thread each. A thread is either parked, or inside KVM_RUN and the
 * handling of its exits. It parks out of one place only: KVM_RUN returned EINTR after
 * kvm_run->immediate_exit was set. By then KVM has completed every port and MMIO access that it
 * left KVM_RUN for (api.rst, "immediate_exit"), so a parked vCPU owes nothing and can be saved. */
#ifndef VMM_VCPU_H
#define VMM_VCPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/bus.h"
#include "vmm/dirty_ring.h"
#include "vmm/exit_trace.h"
#include "vmm/kvm.h"
#include "vmm/machine_tree.h"

struct kvm_run;
struct vcpu_set;

enum vcpu_end {
    VCPU_END_SHUTDOWN, /* triple fault */
    VCPU_END_RESET,    /* a reset that KVM reports */
    VCPU_END_ERROR,    /* KVM cannot go on */
};

/* What KVM_EXIT_DEBUG tells; exception: 1 (#DB) or 3 (#BP). */
struct vcpu_debug_exit {
    uint32_t exception;
    uint64_t pc; /* linear; of a #BP the int3 itself */
    uint64_t dr6;
};

/* Called from the vCPU's thread.
 * end: it can run no further; it parks right after, and is not run again. The callee makes the
 * others park with vcpu_set_request_park().
 * debug: KVM stopped it for a debugger (NULL: nobody debugs). True: it is held, and all are asked
 * to park; false: it goes on. */
struct vcpu_events {
    void (*end)(void *opaque, unsigned cpu, enum vcpu_end end, const char *reason);
    bool (*debug)(void *opaque, unsigned cpu, const struct vcpu_debug_exit *exit);
    void *opaque;
};

struct vcpu {
    struct vcpu_set *set;
    unsigned index;
    int fd;
    struct kvm_run *run;
    bool has_thread;
    pthread_t thread;
    bool parked;              /* set's lock */
    bool held;                /* set's lock: stays parked while the others run */
    struct exit_trace *trace; /* its thread's; NULL: exits are not counted */
    unsigned stuck;           /* its thread's: ring-full exits in a row without an entry */
    unsigned trial;           /* set's lock: the last trial entry that was made */
    /* vcpu_throttle.c, set's lock: */
    unsigned throttle;      /* percent of time taken from it */
    uint64_t slice_end_ns;  /* while it runs; 0: it is not slowed */
    uint64_t rest_until_ns; /* while it rests, parked; 0: it does not */
};

/* Owned by the caller; does not move while open. */
struct vcpu_set {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct bus *bus;
    struct dirty_rings *rings; /* NULL: none */
    struct vcpu_events events;
    size_t run_bytes;
    unsigned ncpus;
    bool may_run; /* lock */
    bool quit;    /* lock */
    unsigned trial;
    bool throttled; /* lock */
    bool has_throttle_thread;
    pthread_t throttle_thread;
    pthread_cond_t throttle_changed;
    struct vcpu vcpu[MACHINE_MAX_CPUS];
};

/* Creates vCPUs 0…ncpus-1 (KVM_CREATE_VCPU) and their threads, parked. Takes over SIGUSR1 for the
 * whole process: its handler does nothing, the signal only interrupts KVM_RUN. bus is borrowed, and
 * rings (NULL: the VM has none). On failure nothing is left to close. */
int vcpu_set_open(struct vcpu_set *set, const struct kvm *kvm, int vm_fd, unsigned ncpus,
                  struct bus *bus, struct dirty_rings *rings, const struct vcpu_events *events,
                  struct error *err);
/* Parks, ends and joins all threads, closes the vCPUs. */
void vcpu_set_close(struct vcpu_set *set);

/* Under the lock: makes a vCPU that is not parked leave KVM_RUN and park. */
void vcpu_kick(struct vcpu *vcpu);

/* All vCPUs may run. */
void vcpu_set_run(struct vcpu_set *set);
/* Signals all vCPUs and returns at once. Any thread, vCPU threads included. */
void vcpu_set_request_park(struct vcpu_set *set);
/* As above, then waits until all are parked. Not from a vCPU thread. */
void vcpu_set_park(struct vcpu_set *set);
/* The same, but each is signalled only when the one before it has parked: what parking together is
 * measured against. */
void vcpu_set_park_in_turn(struct vcpu_set *set);
/* Those that are to stay parked when the set runs: held[i] for vCPU i. All parked. */
void vcpu_set_hold(struct vcpu_set *set, const bool *held);
/* From its own thread: this one is held, and all are asked to park. */
void vcpu_hold(struct vcpu *vcpu);
/* Every vCPU enters KVM_RUN once with immediate_exit set, in its own thread, and parks again. */
void vcpu_set_trial(struct vcpu_set *set);

/* For the run loop: handles the exit that KVM_RUN returned with. False where the vCPU cannot go on;
 * the end was reported then. */
bool vcpu_handle_exit(struct vcpu *vcpu);
void vcpu_report_end(struct vcpu *vcpu, enum vcpu_end end, const char *what);

#endif
