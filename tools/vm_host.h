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

struct vm_host {
    pthread_mutex_t lock;
    struct kvm kvm;
    struct machine *machine; /* NULL until there is one: a receiver waits for it */
    bool engine_paused;      /* a migration holds the guest paused */
    bool user_stopped;       /* the user wants it paused */
    bool in_doubt; /* COMMIT was submitted and never confirmed: never runs here by itself */
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

/* Stands a running guest still for a look at it; holds the lock until vm_host_unpeek(), which lets
 * it run on. */
int vm_host_peek(struct vm_host *host, bool *was_running, struct error *err);
int vm_host_unpeek(struct vm_host *host, bool was_running, struct error *err);

/* Engine side. *was_running: the guest is to run when it is resumed, here or there. */
int vm_host_engine_pause(struct vm_host *host, bool *was_running, struct error *err);
int vm_host_engine_resume(struct vm_host *host, struct error *err);
void vm_host_engine_moved(struct vm_host *host);
/* The engine gave up and holds the guest no longer; one that it found paused is the user's again.
 */
void vm_host_engine_done(struct vm_host *host);
void vm_host_engine_in_doubt(struct vm_host *host);

#endif
