/* SPDX-License-Identifier: MIT */
#include "tools/vm_host.h"

#include <errno.h>
#include <string.h>

#include "vmm/base/log.h"

int vm_host_init(struct vm_host *host, struct error *err)
{
    memset(host, 0, sizeof(*host));
    (void)pthread_mutex_init(&host->lock, NULL);
    (void)pthread_cond_init(&host->released, NULL);
    return kvm_open(&host->kvm, err);
}

void vm_host_destroy(struct vm_host *host)
{
    machine_destroy(host->machine);
    kvm_close(&host->kvm);
    (void)pthread_cond_destroy(&host->released);
    (void)pthread_mutex_destroy(&host->lock);
}

static void lock(struct vm_host *host)
{
    (void)pthread_mutex_lock(&host->lock);
}

static void unlock(struct vm_host *host)
{
    (void)pthread_mutex_unlock(&host->lock);
}

struct machine *vm_host_machine(struct vm_host *host)
{
    struct machine *machine;

    lock(host);
    machine = host->machine;
    unlock(host);
    return machine;
}

void vm_host_set_machine(struct vm_host *host, struct machine *machine)
{
    lock(host);
    host->machine = machine;
    unlock(host);
}

/* May the user change whether the guest runs? */
static int may_control(const struct vm_host *host, struct error *err)
{
    if (!host->machine)
        return error_set(err, EBUSY, "no guest has arrived yet");
    if (host->in_doubt)
        return error_set(err, EPERM,
                         "in doubt: the destination may be running this guest; settle it with "
                         "resolve owner=source or owner=destination");
    if (machine_state(host->machine) == MACHINE_MOVED)
        return error_set(err, ESHUTDOWN, "the guest has moved to another host");
    if (host->debugged)
        return error_set(err, EBUSY,
                         "a debugger is attached: it alone stops and continues the "
                         "guest until it detaches");
    return 0;
}

/* Takes the lock when no migration holds the guest for a moment. While one holds it for good,
 * neither stop nor cont could mean anything here. */
static int lock_for_user(struct vm_host *host, const char *verb, struct error *err)
{
    int rc;

    lock(host);
    while (host->hold == VM_HOST_HELD_BRIEFLY)
        (void)pthread_cond_wait(&host->released, &host->lock);
    rc = may_control(host, err);
    if (!rc && host->hold == VM_HOST_HELD_FOR_GOOD)
        rc =
            error_set(err, EBUSY, "the guest is being handed over: %s it at the destination", verb);
    return rc;
}

int vm_host_stop(struct vm_host *host, struct error *err)
{
    int rc = lock_for_user(host, "stop", err);

    if (!rc)
        rc = machine_pause(host->machine, err);
    unlock(host);
    return rc;
}

/* Under the lock. */
static int let_run(struct vm_host *host, struct error *err)
{
    switch (machine_state(host->machine)) {
    case MACHINE_RUNNING:
        return 0; /* as QEMU: nothing to do */
    case MACHINE_CREATED:
        return machine_start(host->machine, err);
    default:
        return machine_resume(host->machine, err);
    }
}

int vm_host_cont(struct vm_host *host, struct error *err)
{
    int rc = lock_for_user(host, "continue", err);

    if (!rc)
        rc = let_run(host, err);
    unlock(host);
    return rc;
}

int vm_host_debug_attach(struct vm_host *host, bool *was_running, struct error *err)
{
    int rc = lock_for_user(host, "debug", err);

    *was_running = !rc && machine_state(host->machine) == MACHINE_RUNNING;
    if (*was_running)
        rc = machine_pause(host->machine, err);
    if (!rc) {
        rc = machine_debug_attach(host->machine, err);
        host->debugged = !rc;
        if (rc) {
            machine_debug_detach(host->machine);
            if (*was_running)
                (void)machine_resume(host->machine, NULL);
        }
    }
    unlock(host);
    return rc;
}

void vm_host_debug_detach(struct vm_host *host, bool run)
{
    struct error err;

    lock(host);
    if (machine_state(host->machine) == MACHINE_RUNNING)
        (void)machine_pause(host->machine, &err); /* refused where it has ended */
    machine_debug_detach(host->machine);
    host->debugged = false;
    if (run)
        (void)let_run(host, &err); /* likewise */
    unlock(host);
}

int vm_host_debug_run(struct vm_host *host, const enum machine_debug_run *each, struct error *err)
{
    int rc;

    lock(host);
    rc = machine_debug_run(host->machine, each, err);
    unlock(host);
    return rc;
}

int vm_host_debug_stop(struct vm_host *host, struct machine_debug_stop *stop, struct error *err)
{
    int rc;

    lock(host);
    rc = machine_debug_stop(host->machine, stop, err);
    unlock(host);
    return rc;
}

int vm_host_engine_pause(struct vm_host *host, bool last, bool *was_running, struct error *err)
{
    int rc;

    lock(host);
    *was_running = machine_state(host->machine) == MACHINE_RUNNING;
    rc = machine_pause(host->machine, err);
    if (!rc)
        host->hold = last ? VM_HOST_HELD_FOR_GOOD : VM_HOST_HELD_BRIEFLY;
    unlock(host);
    return rc;
}

int vm_host_engine_resume(struct vm_host *host, bool run, struct error *err)
{
    int rc = 0;

    lock(host);
    if (run)
        rc = machine_resume(host->machine, err);
    host->hold = VM_HOST_FREE;
    (void)pthread_cond_broadcast(&host->released);
    unlock(host);
    return rc;
}

void vm_host_engine_moved(struct vm_host *host)
{
    struct error err = {.text = ""};

    lock(host);
    /* Whatever happens: not by us, not by a user. */
    host->in_doubt = false;
    if (machine_mark_moved(host->machine, &err)) {
        host->in_doubt = true;
        log_error("%s", err.text);
    }
    unlock(host);
}

void vm_host_engine_in_doubt(struct vm_host *host)
{
    lock(host);
    host->in_doubt = true;
    unlock(host);
}

int vm_host_take_back(struct vm_host *host, bool run, struct error *err)
{
    int rc = vm_host_engine_resume(host, run, err);

    lock(host);
    host->in_doubt = rc != 0;
    unlock(host);
    return rc;
}

int vm_host_peek(struct vm_host *host, bool *was_running, struct error *err)
{
    int rc = 0;

    lock(host);
    *was_running = machine_state(host->machine) == MACHINE_RUNNING;
    if (*was_running)
        rc = machine_pause(host->machine, err);
    if (rc)
        unlock(host);
    return rc;
}

int vm_host_unpeek(struct vm_host *host, bool was_running, struct error *err)
{
    int rc = was_running ? machine_resume(host->machine, err) : 0;

    unlock(host);
    return rc;
}
