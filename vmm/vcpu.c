/* SPDX-License-Identifier: MIT
 *
 * vCPU threads: run loop, kick, park. */
#include "vmm/vcpu.h"

#include <errno.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "vmm/base/clock.h"
#include "vmm/vcpu_throttle.h"

#define KICK_SIGNAL SIGUSR1

static void on_kick(int signal)
{
    (void)signal;
}

/* The flag is shared with the kernel and between threads. */
static void set_immediate_exit(struct vcpu *vcpu, bool on)
{
    __atomic_store_n(&vcpu->run->immediate_exit, on, __ATOMIC_RELEASE);
}

static bool immediate_exit(const struct vcpu *vcpu)
{
    return __atomic_load_n(&vcpu->run->immediate_exit, __ATOMIC_ACQUIRE);
}

/* Without a trace this costs one branch, and no look at the clock. */
static bool handle_exit(struct vcpu *vcpu)
{
    uint64_t begin_ns;
    bool goes_on;

    if (!vcpu->trace)
        return vcpu_handle_exit(vcpu);
    begin_ns = clock_now_ns();
    goes_on = vcpu_handle_exit(vcpu);
    exit_trace_add(vcpu->trace, vcpu->run, clock_now_ns() - begin_ns);
    return goes_on;
}

/* Returns only out of EINTR, when all that was owed to KVM is done, or when the guest ended. A
 * completed string access may cause the next exit, which is handled and completed in turn. */
static void run_until_kicked(struct vcpu *vcpu)
{
    for (;;) {
        if (ioctl(vcpu->fd, KVM_RUN, 0) == 0) {
            if (!handle_exit(vcpu))
                return;
            continue;
        }
        if (errno == EINTR) {
            if (vcpu->trace)
                exit_trace_interrupted(vcpu->trace);
            if (immediate_exit(vcpu))
                return;
        } else if (errno != EAGAIN) { /* EAGAIN: the vCPU waited for INIT/SIPI; once */
            char what[64];

            (void)snprintf(what, sizeof(what), "KVM_RUN: %s", strerror(errno));
            vcpu_report_end(vcpu, VCPU_END_ERROR, what);
            return;
        }
    }
}

/* Waits, parked, for a change or the end of the rest; false once that has come. */
static bool rests(struct vcpu *vcpu)
{
    struct timespec until = {.tv_sec = (time_t)(vcpu->rest_until_ns / CLOCK_NS_PER_SEC),
                             .tv_nsec = (long)(vcpu->rest_until_ns % CLOCK_NS_PER_SEC)};

    if (vcpu->rest_until_ns <= clock_now_ns())
        return false;
    (void)pthread_cond_timedwait(&vcpu->set->changed, &vcpu->set->lock, &until);
    return true;
}

static bool may_run(const struct vcpu *vcpu)
{
    return vcpu->set->may_run && !vcpu->held;
}

static void *vcpu_thread(void *argument)
{
    struct vcpu *vcpu = argument;
    struct vcpu_set *set = vcpu->set;

    pthread_mutex_lock(&set->lock);
    while (!set->quit) {
        if (!may_run(vcpu) && vcpu->trial == set->trial) {
            pthread_cond_wait(&set->changed, &set->lock);
            continue;
        }
        if (may_run(vcpu) && rests(vcpu))
            continue;
        vcpu_throttle_begin_slice(vcpu, clock_now_ns());
        vcpu->parked = false;
        set_immediate_exit(vcpu, !may_run(vcpu));
        pthread_mutex_unlock(&set->lock);
        run_until_kicked(vcpu);
        pthread_mutex_lock(&set->lock);
        vcpu->trial = set->trial;
        vcpu->parked = true;
        vcpu_throttle_rest(vcpu, clock_now_ns());
        pthread_cond_broadcast(&set->changed);
    }
    pthread_mutex_unlock(&set->lock);
    return NULL;
}

static bool all_parked(const struct vcpu_set *set)
{
    for (unsigned i = 0; i < set->ncpus; i++) {
        if (!set->vcpu[i].parked || set->vcpu[i].trial != set->trial)
            return false;
    }
    return true;
}

void vcpu_kick(struct vcpu *vcpu)
{
    set_immediate_exit(vcpu, true);
    pthread_kill(vcpu->thread, KICK_SIGNAL);
}

static void request_park(struct vcpu_set *set)
{
    set->may_run = false;
    for (unsigned i = 0; i < set->ncpus; i++) {
        if (!set->vcpu[i].parked)
            vcpu_kick(&set->vcpu[i]);
    }
}

void vcpu_set_run(struct vcpu_set *set)
{
    pthread_mutex_lock(&set->lock);
    set->may_run = true;
    pthread_cond_broadcast(&set->changed);
    pthread_mutex_unlock(&set->lock);
}

void vcpu_set_request_park(struct vcpu_set *set)
{
    pthread_mutex_lock(&set->lock);
    request_park(set);
    pthread_mutex_unlock(&set->lock);
}

void vcpu_set_park(struct vcpu_set *set)
{
    pthread_mutex_lock(&set->lock);
    request_park(set);
    while (!all_parked(set))
        pthread_cond_wait(&set->changed, &set->lock);
    pthread_mutex_unlock(&set->lock);
}

void vcpu_set_park_in_turn(struct vcpu_set *set)
{
    pthread_mutex_lock(&set->lock);
    set->may_run = false;
    for (unsigned i = 0; i < set->ncpus; i++) {
        if (!set->vcpu[i].parked)
            vcpu_kick(&set->vcpu[i]);
        while (!set->vcpu[i].parked)
            pthread_cond_wait(&set->changed, &set->lock);
    }
    pthread_mutex_unlock(&set->lock);
}

void vcpu_set_hold(struct vcpu_set *set, const bool *held)
{
    pthread_mutex_lock(&set->lock);
    for (unsigned i = 0; i < set->ncpus; i++)
        set->vcpu[i].held = held[i];
    pthread_mutex_unlock(&set->lock);
}

void vcpu_hold(struct vcpu *vcpu)
{
    pthread_mutex_lock(&vcpu->set->lock);
    vcpu->held = true;
    request_park(vcpu->set);
    pthread_mutex_unlock(&vcpu->set->lock);
}

void vcpu_set_trial(struct vcpu_set *set)
{
    pthread_mutex_lock(&set->lock);
    set->trial++;
    pthread_cond_broadcast(&set->changed);
    while (!all_parked(set))
        pthread_cond_wait(&set->changed, &set->lock);
    pthread_mutex_unlock(&set->lock);
}

static int open_vcpu(struct vcpu *vcpu, int vm_fd, struct error *err)
{
    void *run;
    int ret = KVM_IOCTL(vm_fd, KVM_CREATE_VCPU, (void *)(uintptr_t)vcpu->index, err);

    if (ret < 0)
        return ret;
    vcpu->fd = ret;
    run = mmap(NULL, vcpu->set->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
    if (run == MAP_FAILED) {
        int code = errno;

        return error_set(err, code, "vCPU %u: mmap: %s", vcpu->index, strerror(code));
    }
    vcpu->run = run;
    return vcpu->set->rings ? dirty_rings_attach(vcpu->set->rings, vcpu->index, vcpu->fd, err) : 0;
}

/* Threads inherit the mask: everything but the kick is somebody else's. */
static int start_threads(struct vcpu_set *set, struct error *err)
{
    sigset_t all, old;
    int ret = 0;

    sigfillset(&all);
    sigdelset(&all, KICK_SIGNAL);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (unsigned i = 0; !ret && i < set->ncpus; i++) {
        struct vcpu *vcpu = &set->vcpu[i];

        ret = pthread_create(&vcpu->thread, NULL, vcpu_thread, vcpu);
        vcpu->has_thread = !ret;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ret ? error_set(err, ret, "vCPU thread: %s", strerror(ret)) : 0;
}

int vcpu_set_open(struct vcpu_set *set, const struct kvm *kvm, int vm_fd, unsigned ncpus,
                  struct bus *bus, struct dirty_rings *rings, const struct vcpu_events *events,
                  struct error *err)
{
    struct sigaction action = {.sa_handler = on_kick}; /* no SA_RESTART: KVM_RUN must return */
    pthread_condattr_t monotonic;
    int ret = 0;

    memset(set, 0, sizeof(*set));
    pthread_mutex_init(&set->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&set->changed, &monotonic);
    pthread_cond_init(&set->throttle_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    set->bus = bus;
    set->rings = rings;
    set->events = *events;
    set->run_bytes = kvm->run_bytes;
    set->ncpus = ncpus;
    for (unsigned i = 0; i < ncpus; i++) {
        set->vcpu[i].set = set;
        set->vcpu[i].index = i;
        set->vcpu[i].fd = -1;
        set->vcpu[i].parked = true;
    }
    sigemptyset(&action.sa_mask);
    sigaction(KICK_SIGNAL, &action, NULL);
    for (unsigned i = 0; !ret && i < ncpus; i++)
        ret = open_vcpu(&set->vcpu[i], vm_fd, err);
    if (!ret)
        ret = start_threads(set, err);
    if (ret)
        vcpu_set_close(set);
    return ret;
}

void vcpu_set_close(struct vcpu_set *set)
{
    static const unsigned full_speed[MACHINE_MAX_CPUS];

    (void)vcpu_throttle_set(set, full_speed, NULL);
    pthread_mutex_lock(&set->lock);
    request_park(set);
    set->quit = true;
    pthread_cond_broadcast(&set->changed);
    pthread_mutex_unlock(&set->lock);
    for (unsigned i = 0; i < set->ncpus; i++) {
        struct vcpu *vcpu = &set->vcpu[i];

        if (vcpu->has_thread)
            pthread_join(vcpu->thread, NULL);
        if (vcpu->run)
            munmap(vcpu->run, set->run_bytes);
        if (vcpu->fd >= 0)
            close(vcpu->fd);
    }
    pthread_cond_destroy(&set->throttle_changed);
    pthread_cond_destroy(&set->changed);
    pthread_mutex_destroy(&set->lock);
}
