/* SPDX-License-Identifier: MIT */
#include "tools/dirty_oracle.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/dirty_oracle_judge.h"
#include "tools/writer_vm.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"
#include "vmm/dirty_ring.h"

/* Sweeps store what no store counter ever reaches. */
#define SWEEP_VALUE (1ull << 63)
/* A device stores this often for each look at the vCPUs' pace. */
#define DEVICE_BURST 16

struct oracle {
    const struct dirty_oracle_case *test;
    struct writer_vm *vm;
    struct dirty_log *log;
    struct judge judge;
    uint64_t total_pages;
    uint64_t nsweeps;
    pthread_t device;
    pthread_mutex_t device_lock; /* a store of the device and its mark */
    bool device_runs;
    bool device_stop; /* atomic */
    uint64_t device_number;
};

static void wait_for_pace(const struct oracle *o)
{
    const struct timespec pause = {.tv_nsec = 20 * CLOCK_NS_PER_US};
    uint64_t before = writer_vm_stores(o->vm, 0);

    while (writer_vm_stores(o->vm, 0) == before &&
           !__atomic_load_n(&o->device_stop, __ATOMIC_ACQUIRE))
        (void)nanosleep(&pause, NULL);
}

/* Stores like a device that does DMA, about as often as a vCPU. */
static void *device_thread(void *argument)
{
    struct oracle *o = argument;
    struct memory *memory = writer_vm_memory(o->vm);
    uint64_t random = 99;

    while (!__atomic_load_n(&o->device_stop, __ATOMIC_ACQUIRE)) {
        uint64_t index, page;
        unsigned slot = 0;
        gpa_t gpa;

        random = random * 6364136223846793005u + 1442695040888963407u;
        index = (random >> 32) * o->total_pages >> 32;
        for (page = index; page >= o->test->npages[slot]; slot++)
            page -= o->test->npages[slot];
        gpa = writer_vm_gpa(o->vm, slot, page) + JUDGE_DEVICE_OFFSET;
        /* Store, then mark: the order that every device has to keep. */
        pthread_mutex_lock(&o->device_lock);
        __atomic_store_n((uint64_t *)memory_at(memory, gpa, sizeof(uint64_t)), ++o->device_number,
                         __ATOMIC_RELEASE);
        memory_mark_written(memory, gpa, sizeof(uint64_t));
        pthread_mutex_unlock(&o->device_lock);
        if (o->device_number % DEVICE_BURST == 0)
            wait_for_pace(o);
    }
    return NULL;
}

static int start_all(struct oracle *o, struct error *err)
{
    int ret = writer_vm_roam(o->vm, err);

    if (ret)
        return ret;
    o->device_stop = false;
    ret = pthread_create(&o->device, NULL, device_thread, o);
    o->device_runs = !ret;
    return ret ? error_set(err, ret, "device thread: %s", strerror(ret)) : 0;
}

static void stop_device(struct oracle *o)
{
    if (!o->device_runs)
        return;
    __atomic_store_n(&o->device_stop, true, __ATOMIC_RELEASE);
    pthread_join(o->device, NULL);
    o->device_runs = false;
}

static int stop_all(struct oracle *o, struct error *err)
{
    stop_device(o);
    return writer_vm_settle(o->vm, err);
}

/* One round: fetch, then claim and look chunk by chunk, of another size each time. */
static int harvest(struct oracle *o, bool quiet, struct error *err)
{
    struct dirty_log_sync found;
    uint64_t chunk;
    int ret;

    /* What the last round saw of the device is marked from here on: it may have been preempted
     * between a store and its mark for longer than a round. */
    pthread_mutex_lock(&o->device_lock);
    pthread_mutex_unlock(&o->device_lock);
    ret = writer_vm_kick(o->vm, err);
    if (!ret)
        ret = dirty_log_sync(o->log, &found, err);
    judge_round(&o->judge, quiet);
    chunk = BITMAP_WORD_BITS * (1 + o->judge.round % 9);
    for (unsigned slot = 0; slot < o->test->nslots; slot++) {
        uint64_t npages = o->test->npages[slot];

        for (uint64_t first = 0; !ret && first < npages; first += chunk) {
            uint64_t n = npages - first < chunk ? npages - first : chunk;

            uint64_t *words;

            ret = dirty_log_claim(o->log, slot, first, n, &words, err);
            if (!ret)
                judge_chunk(&o->judge, slot, first, n, words);
        }
    }
    return ret;
}

static int sweep(struct oracle *o, struct error *err)
{
    int ret = writer_vm_write(o->vm, SWEEP_VALUE | ++o->nsweeps, NULL, err);

    return ret ? ret : harvest(o, true, err);
}

static int campaign(struct oracle *o, struct error *err)
{
    const struct dirty_oracle_case *test = o->test;
    int ret = start_all(o, err);

    if (!ret)
        ret = writer_vm_await(o->vm, test->stores, err);
    if (!ret)
        ret = dirty_log_open(&o->log, writer_vm_log(o->vm), &test->log, err);
    for (unsigned i = 0; !ret && i < test->rounds; i++) {
        ret = harvest(o, false, err);
        if (!ret)
            ret = writer_vm_await(o->vm, test->stores, err);
    }
    if (!ret)
        ret = stop_all(o, err);
    if (!ret)
        ret = harvest(o, true, err);
    if (!ret)
        judge_copies(&o->judge);
    for (unsigned i = 0; !ret && i < test->sweeps; i++)
        ret = sweep(o, err);
    if (!ret)
        ret = start_all(o, err);
    if (!ret)
        ret = writer_vm_await(o->vm, test->stores, err);
    dirty_log_close(o->log);
    o->log = NULL;
    if (!ret)
        ret = writer_vm_await(o->vm, test->stores, err);
    if (!ret)
        ret = stop_all(o, err);
    return ret;
}

static int set_lists(struct oracle *o, struct error *err)
{
    gpa_t *pages = calloc(o->total_pages, sizeof(*pages));
    uint64_t n = 0;
    int ret = 0;

    if (!pages)
        return error_set(err, ENOMEM, "no memory for a list of pages");
    for (unsigned slot = 0; slot < o->test->nslots; slot++) {
        for (uint64_t page = 0; page < o->test->npages[slot]; page++)
            pages[n++] = writer_vm_gpa(o->vm, slot, page);
    }
    for (unsigned cpu = 0; !ret && cpu < o->test->ncpus; cpu++)
        ret = writer_vm_set_list(o->vm, cpu, pages, n, err);
    free(pages);
    return ret;
}

static int set_up(struct oracle *o, const struct kvm *kvm, struct error *err)
{
    const struct dirty_oracle_case *test = o->test;
    struct writer_vm_config config = {.npages = test->npages,
                                      .nslots = test->nslots,
                                      .backing = test->backing,
                                      .ncpus = test->ncpus,
                                      .privilege = test->privilege,
                                      .cancelled = test->cancelled};
    int ret;

    for (unsigned slot = 0; slot < test->nslots; slot++)
        o->total_pages += test->npages[slot];
    config.max_list = o->total_pages;
    if (test->log.backend == DIRTY_LOG_RING)
        config.dirty_ring_entries =
            test->ring_entries ? test->ring_entries : DIRTY_RING_DEFAULT_ENTRIES;
    ret = writer_vm_open(&o->vm, kvm, &config, err);
    if (!ret)
        ret = judge_open(&o->judge, writer_vm_memory(o->vm), test->nslots, test->ncpus, err);
    if (ret)
        return ret;
    ret = set_lists(o, err);
    return ret ? ret : writer_vm_hold(o->vm, false, err);
}

static void take_down(struct oracle *o)
{
    stop_device(o);
    dirty_log_close(o->log);
    judge_close(&o->judge);
    writer_vm_close(o->vm);
}

static void conclude(const struct oracle *o, const struct error *failure,
                     struct dirty_oracle_verdict *verdict)
{
    const struct judge *judge = &o->judge;
    const struct dirty_log_vm *log = writer_vm_log(o->vm);

    verdict->lost_pages = judge->lost_pages;
    verdict->slot = judge->slot;
    verdict->page = judge->page;
    verdict->round = judge->lost_round;
    verdict->reports = judge->reports;
    verdict->full_exits = log->rings ? dirty_rings_full_exits(log->rings) : 0;
    for (unsigned cpu = 0; cpu < o->test->ncpus; cpu++)
        verdict->stores += writer_vm_stores(o->vm, cpu);
    if (!judge->lost_pages && !failure)
        return;
    verdict->result = DIRTY_ORACLE_BROKEN;
    if (!judge->lost_pages)
        (void)snprintf(verdict->why, sizeof(verdict->why), "%s", failure->text);
    else
        (void)snprintf(verdict->why, sizeof(verdict->why),
                       "%" PRIu64 " of %" PRIu64 " pages were changed and not reported, first page "
                       "%" PRIu64 " of slot %u in round %u%s%.300s",
                       judge->lost_pages, o->total_pages, judge->page, judge->slot,
                       judge->lost_round, failure ? "; then: " : "", failure ? failure->text : "");
}

static bool no_verdict(int failure)
{
    return failure == -ECANCELED || failure == -ENOMEM || failure == -EAGAIN;
}

int dirty_oracle_run(const struct kvm *kvm, const struct dirty_oracle_case *test,
                     struct dirty_oracle_verdict *verdict, struct error *err)
{
    struct oracle o = {.test = test, .device_lock = PTHREAD_MUTEX_INITIALIZER};
    struct error failure = {""};
    int ret;

    memset(verdict, 0, sizeof(*verdict));
    if (!dirty_log_supported(kvm, test->log.backend)) {
        verdict->result = DIRTY_ORACLE_ABSENT;
        (void)snprintf(verdict->why, sizeof(verdict->why), "this host's KVM does not offer it");
        return 0;
    }
    ret = set_up(&o, kvm, err);
    if (ret)
        goto out;
    for (unsigned i = 0; !ret && i < test->campaigns; i++)
        ret = campaign(&o, &failure);
    /* What fails with a VM that was built and a backend that is offered is the backend's failure,
     * unless it is known to be another's. */
    if (!o.judge.lost_pages && no_verdict(ret)) {
        ret = error_set(err, -ret, "%s", failure.text);
        goto out;
    }
    conclude(&o, ret ? &failure : NULL, verdict);
    ret = 0;
out:
    take_down(&o);
    return ret;
}
