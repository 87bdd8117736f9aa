/* SPDX-License-Identifier: MIT
 *
 * The writer VM's jobs: posted into mailboxes, awaited by polling them. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "tools/writer_vm_internal.h"
#include "vmm/base/clock.h"

/* A software CPU under load may take long for a store, but not this long. */
#define PATIENCE_NS (20 * CLOCK_NS_PER_SEC)
/* A waiter looks this often at once, then sleeps between looks: vCPUs may need its CPU. */
#define BRISK_LOOKS 64
#define LOOK_NS     (20 * CLOCK_NS_PER_US)
/* Longer than this takes no look and no sleep between two. */
#define LONG_LOOK_NS (CLOCK_NS_PER_SEC / 4)

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

uint64_t writer_vm_stores(const struct writer_vm *vm, unsigned cpu)
{
    return load(&vm->mailbox[cpu]->stores);
}

static int check_alive(struct writer_vm *vm, struct error *err)
{
    int ret = 0;

    pthread_mutex_lock(&vm->lock);
    if (vm->ended)
        ret = error_set(err, EIO, "%s", vm->why.text);
    pthread_mutex_unlock(&vm->lock);
    if (!ret && vm->cancelled && __atomic_load_n(vm->cancelled, __ATOMIC_ACQUIRE))
        ret = error_set(err, ECANCELED, "cancelled");
    return ret;
}

/* What is waited for: each vCPU through with its job, or at a number of stores. */
struct goal {
    bool job;
    uint64_t stores[WRITER_VM_MAX_CPUS];
};

static bool reached(const struct writer_vm *vm, const struct goal *goal)
{
    for (unsigned i = 0; i < vm->ncpus; i++) {
        if (goal->job ? load(&vm->mailbox[i]->done) != vm->job
                      : writer_vm_stores(vm, i) < goal->stores[i])
            return false;
    }
    return true;
}

static uint64_t progress(const struct writer_vm *vm)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < vm->ncpus; i++)
        sum += writer_vm_stores(vm, i) + load(&vm->mailbox[i]->done);
    return sum;
}

static int await(struct writer_vm *vm, const struct goal *goal, struct error *err)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    uint64_t seen = progress(vm), looked_ns = clock_now_ns(), waited_ns = 0;
    int ret = 0;

    for (unsigned looks = 0; !ret && !reached(vm, goal); looks++) {
        uint64_t now = progress(vm), now_ns = clock_now_ns();
        uint64_t since_ns = now_ns - looked_ns;

        ret = check_alive(vm, err);
        looked_ns = now_ns;
        /* A process that was stopped did not wait. */
        waited_ns += since_ns < LONG_LOOK_NS ? since_ns : LONG_LOOK_NS;
        if (now != seen) {
            seen = now;
            waited_ns = 0;
        } else if (!ret && waited_ns > PATIENCE_NS) {
            ret = error_set(err, ETIME,
                            "no vCPU has stored anything for %u s, %" PRIu64 " stores were made",
                            (unsigned)(PATIENCE_NS / CLOCK_NS_PER_SEC), seen);
        }
        if (looks >= BRISK_LOOKS)
            (void)nanosleep(&pause, NULL);
    }
    return ret;
}

int writer_vm_set_list(struct writer_vm *vm, unsigned cpu, const gpa_t *pages, uint64_t npages,
                       struct error *err)
{
    gpa_t at = vm->layout.list + cpu * vm->layout.list_bytes;

    if (cpu >= vm->ncpus || npages > vm->max_list)
        return error_set(err, EINVAL,
                         "a list of %" PRIu64 " pages for vCPU %u: up to %" PRIu64
                         " for up to %u vCPUs were planned",
                         npages, cpu, vm->max_list, vm->ncpus);
    assert(!vm->roaming);
    if (npages)
        memcpy(memory_at(&vm->memory, at, npages * sizeof(pages[0])), pages,
               npages * sizeof(pages[0]));
    vm->mailbox[cpu]->list = at;
    vm->mailbox[cpu]->npages = npages;
    return 0;
}

int writer_vm_hold(struct writer_vm *vm, bool held, struct error *err)
{
    int ret = check_alive(vm, err);

    if (ret)
        return ret;
    vm->held = held;
    if (held)
        vcpu_set_park(&vm->vcpus);
    else
        vcpu_set_run(&vm->vcpus);
    return 0;
}

int writer_vm_kick(struct writer_vm *vm, struct error *err)
{
    int ret = check_alive(vm, err);

    if (!ret && !vm->held) {
        vcpu_set_park(&vm->vcpus);
        vcpu_set_run(&vm->vcpus);
    }
    return ret;
}

int writer_vm_pause(struct writer_vm *vm, bool in_turn, uint64_t *ns, struct error *err)
{
    uint64_t begin_ns;

    assert(!vm->held);
    begin_ns = clock_now_ns();
    if (in_turn)
        vcpu_set_park_in_turn(&vm->vcpus);
    else
        vcpu_set_park(&vm->vcpus);
    *ns = clock_now_ns() - begin_ns;
    vcpu_set_run(&vm->vcpus);
    return check_alive(vm, err);
}

static void post(struct writer_vm *vm, uint64_t kind, uint64_t value)
{
    vm->job++;
    for (unsigned i = 0; i < vm->ncpus; i++) {
        struct writer_mailbox *mailbox = vm->mailbox[i];

        mailbox->kind = kind;
        mailbox->offset = i * sizeof(uint64_t);
        mailbox->value = value;
        store(&mailbox->job, vm->job);
    }
}

static uint64_t ticks_to_ns(const struct writer_vm *vm, uint64_t ticks)
{
    /* Ticks of a job: far below 2^44, so that the product fits. */
    return vm->tsc_khz
               ? ticks * 1000 / vm->tsc_khz * 1000 + ticks * 1000 % vm->tsc_khz * 1000 / vm->tsc_khz
               : 0;
}

static void add_up(const struct writer_vm *vm, struct writer_vm_result *result)
{
    *result = (struct writer_vm_result){0};
    for (unsigned i = 0; i < vm->ncpus; i++) {
        const struct writer_mailbox *mailbox = vm->mailbox[i];
        uint64_t ns = ticks_to_ns(vm, mailbox->end_tsc - mailbox->begin_tsc);

        result->guest_ns = ns > result->guest_ns ? ns : result->guest_ns;
        result->stores += mailbox->npages;
    }
}

int writer_vm_write(struct writer_vm *vm, uint64_t value, struct writer_vm_result *result,
                    struct error *err)
{
    const struct goal goal = {.job = true};
    int ret = check_alive(vm, err);

    if (ret)
        return ret;
    assert(!vm->roaming);
    post(vm, WRITER_JOB_LIST, value);
    if (vm->held)
        vcpu_set_run(&vm->vcpus);
    ret = await(vm, &goal, err);
    if (vm->held)
        vcpu_set_park(&vm->vcpus);
    if (!ret && result)
        add_up(vm, result);
    return ret;
}

int writer_vm_roam(struct writer_vm *vm, struct error *err)
{
    int ret = check_alive(vm, err);

    if (ret)
        return ret;
    assert(!vm->roaming && !vm->held);
    for (unsigned i = 0; !ret && i < vm->ncpus; i++) {
        if (!vm->mailbox[i]->npages)
            ret = error_set(err, EINVAL, "vCPU %u has no page to store to", i);
    }
    if (ret)
        return ret;
    post(vm, WRITER_JOB_ROAM, 0);
    vm->roaming = true;
    return 0;
}

int writer_vm_settle(struct writer_vm *vm, struct error *err)
{
    const struct goal goal = {.job = true};

    assert(vm->roaming);
    vm->roaming = false;
    for (unsigned i = 0; i < vm->ncpus; i++)
        store(&vm->mailbox[i]->stop, vm->job);
    return await(vm, &goal, err);
}

int writer_vm_await(struct writer_vm *vm, uint64_t more, struct error *err)
{
    struct goal goal = {.job = false};

    assert(vm->roaming);
    for (unsigned i = 0; i < vm->ncpus; i++)
        goal.stores[i] = writer_vm_stores(vm, i) + more;
    return await(vm, &goal, err);
}
