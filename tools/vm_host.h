/* SPDX-License-Identifier: MIT
 *
 * The guest of this process as two threads see it: the control thread (stop, cont, quit) and a
 * migration's engine (pause, resume, moved). One lock orders them; it is held for single steps,
 * never across a migration. */
#ifndef TOOLS_VM_HOST_H
#define TOOLS_VM_HOST_H

#include <pthread.h>
#include <stdbool.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/machine.h"
#include "vmm/machine_debug.h"

/* How a migration holds the guest paused. */
enum vm_host_hold {
    VM_HOST_FREE,
    VM_HOST_HELD_BRIEFLY,  /* for a measurement: stop and cont wait for its end */
    VM_HOST_HELD_FOR_GOOD, /* until the guest is handed over, or the migration fails */
};

struct vm_host {
    pthread_mutex_t lock;
    pthread_cond_t released; /* `hold` became VM_HOST_FREE */
    struct kvm kvm;
    struct machine *machine; /* NULL until there is one: a receiver waits for it */
    enum vm_host_hold hold;
    bool in_doubt; /* COMMIT was submitted and never confirmed: never runs here by itself */
    bool debugged; /* a debugger is attached: it alone starts and stops the guest, and nobody moves
                      or saves what has its breakpoints in it */
};

int vm_host_init(struct vm_host *host, struct error *err);
/* Destroys the machine too. */
void vm_host_destroy(struct vm_host *host);

/* The machine, or NULL. Any thread. */
struct machine *vm_host_machine(struct vm_host *host);
void vm_host_set_machine(struct vm_host *host, struct machine *machine);

/* Control side. -EBUSY, -ESHUTDOWN or -EPERM with a line where the guest must not run or cannot
 * stop. */
int vm_host_stop(struct vm_host *host, struct error *err);
int vm_host_cont(struct vm_host *host, struct error *err);

/* A debugger, in the control thread. attach: the guest stands from then on; *was_running says what
 * it did before. Refused with a line where another thread holds the guest or it is not here. run,
 * stop: as machine_debug_run() and machine_debug_stop(). detach: breakpoints go, and the guest runs
 * on where `run` says so and it can. */
int vm_host_debug_attach(struct vm_host *host, bool *was_running, struct error *err);
void vm_host_debug_detach(struct vm_host *host, bool run);
int vm_host_debug_run(struct vm_host *host, const enum machine_debug_run *each, struct error *err);
int vm_host_debug_stop(struct vm_host *host, struct machine_debug_stop *stop, struct error *err);

/* Stands a running guest still for a look at it; holds the lock until vm_host_unpeek(), which lets
 * it run on. */
int vm_host_peek(struct vm_host *host, bool *was_running, struct error *err);
int vm_host_unpeek(struct vm_host *host, bool was_running, struct error *err);

/* Engine side: the contract of migrate/endpoint.h. */
int vm_host_engine_pause(struct vm_host *host, bool last, bool *was_running, struct error *err);
int vm_host_engine_resume(struct vm_host *host, bool run, struct error *err);
void vm_host_engine_moved(struct vm_host *host);
void vm_host_engine_in_doubt(struct vm_host *host);

/* The doubt is over and the guest is ours: it goes on as it was. In doubt still where it cannot. */
int vm_host_take_back(struct vm_host *host, bool run, struct error *err);

#endif
