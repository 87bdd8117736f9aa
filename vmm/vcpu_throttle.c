/* SPDX-License-Identifier: MIT */
#include "vmm/vcpu_throttle.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "vmm/base/clock.h"

/* What a vCPU does in one go: long beside a kick, short beside what a person notices. */
#define PERIOD_NS    (10 * CLOCK_NS_PER_MS)
#define MIN_SLICE_NS CLOCK_NS_PER_MS

static uint64_t slice_ns(unsigned percent)
{
    uint64_t slice = PERIOD_NS * (100 - percent) / 100;

    return slice > MIN_SLICE_NS ? slice : MIN_SLICE_NS;
}

static uint64_t rest_ns(unsigned percent)
{
    return slice_ns(percent) * percent / (100 - percent);
}

void vcpu_throttle_begin_slice(struct vcpu *vcpu, uint64_t now_ns)
{
    vcpu->rest_until_ns = 0;
    vcpu->slice_end_ns = vcpu->throttle ? now_ns + slice_ns(vcpu->throttle) : 0;
}

void vcpu_throttle_rest(struct vcpu *vcpu, uint64_t now_ns)
{
    if (vcpu->throttle && vcpu->slice_end_ns && now_ns >= vcpu->slice_end_ns)
        vcpu->rest_until_ns = now_ns + rest_ns(vcpu->throttle);
    vcpu->slice_end_ns = 0;
}

/* Stops those whose slice is over; returns when the next one's is. */
static uint64_t end_slices(struct vcpu_set *set, uint64_t now_ns)
{
    uint64_t next_ns = now_ns + PERIOD_NS;

    for (unsigned i = 0; i < set->ncpus; i++) {
        struct vcpu *vcpu = &set->vcpu[i];

        if (!vcpu->throttle || vcpu->parked)
            continue;
        if (!vcpu->slice_end_ns)
            vcpu_throttle_begin_slice(vcpu, now_ns); /* it ran before it was slowed */
        if (vcpu->slice_end_ns <= now_ns)
            vcpu_kick(vcpu);
        else if (vcpu->slice_end_ns < next_ns)
            next_ns = vcpu->slice_end_ns;
    }
    return next_ns;
}

static void *throttle_main(void *opaque)
{
    struct vcpu_set *set = opaque;

    pthread_mutex_lock(&set->lock);
    while (set->throttled) {
        uint64_t next_ns = end_slices(set, clock_now_ns());
        struct timespec until = {.tv_sec = (time_t)(next_ns / CLOCK_NS_PER_SEC),
                                 .tv_nsec = (long)(next_ns % CLOCK_NS_PER_SEC)};

        (void)pthread_cond_timedwait(&set->throttle_changed, &set->lock, &until);
    }
    pthread_mutex_unlock(&set->lock);
    return NULL;
}

static void stop(struct vcpu_set *set)
{
    pthread_mutex_lock(&set->lock);
    set->throttled = false;
    for (unsigned i = 0; i < set->ncpus; i++) {
        set->vcpu[i].throttle = 0;
        set->vcpu[i].rest_until_ns = 0;
    }
    pthread_cond_broadcast(&set->throttle_changed);
    pthread_cond_broadcast(&set->changed); /* those that rest go on */
    pthread_mutex_unlock(&set->lock);
    if (set->has_throttle_thread)
        (void)pthread_join(set->throttle_thread, NULL);
    set->has_throttle_thread = false;
}

int vcpu_throttle_set(struct vcpu_set *set, const unsigned *percent, struct error *err)
{
    bool any = false;
    int rc;

    for (unsigned i = 0; i < set->ncpus; i++)
        any |= percent[i] != 0;
    if (!any) {
        stop(set);
        return 0;
    }
    pthread_mutex_lock(&set->lock);
    for (unsigned i = 0; i < set->ncpus; i++) {
        struct vcpu *vcpu = &set->vcpu[i];

        vcpu->throttle =
            percent[i] < VCPU_THROTTLE_MAX_PERCENT ? percent[i] : VCPU_THROTTLE_MAX_PERCENT;
        if (!vcpu->throttle)
            vcpu->rest_until_ns = vcpu->slice_end_ns = 0;
    }
    pthread_cond_broadcast(&set->changed); /* those that rested and need not any more */
    set->throttled = true;
    pthread_mutex_unlock(&set->lock);
    if (set->has_throttle_thread)
        return 0;
    rc = pthread_create(&set->throttle_thread, NULL, throttle_main, set);
    if (rc) {
        stop(set);
        return error_set(err, rc, "a thread to slow vCPUs: %s", strerror(rc));
    }
    set->has_throttle_thread = true;
    return 0;
}
