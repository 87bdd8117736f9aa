/* SPDX-License-Identifier: MIT */
#include "tools/bench_dirty_lane.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "tools/bench_progress.h"
#include "vmm/base/clock.h"
#include "vmm/base/size.h"

const char *bench_dirty_lane_name(const struct bench_dirty_lane *lane, char *text, size_t bytes)
{
    const char *backend = dirty_log_backend_name(lane->backend);

    if (lane->backend == DIRTY_LOG_CLEAR)
        (void)snprintf(text, bytes, "%s, chunks of %" PRIu64 ", %s", backend, lane->chunk,
                       bench_dirty_ranges_name(lane->ranges));
    else
        (void)snprintf(text, bytes, "%s", backend);
    return text;
}

/* The measuring thread has the first CPU. */
static int pin(const struct bench_dirty *bench, struct bench_dirty_lane *lane, struct error *err)
{
    int result = 0;

    for (unsigned i = 0; !result && i < bench->config->ncpus; i++)
        result = writer_vm_pin(lane->vm, i, bench->cpu[1 + i % (bench->ncpus - 1)], err);
    return result;
}

static int touch(struct bench_dirty *bench, struct bench_dirty_lane *lane, struct error *err)
{
    const struct memory *memory = writer_vm_memory(lane->vm);
    uint64_t ns;
    int result = 0;

    /* The host's own faults are no concern of ours. */
    for (unsigned slot = 0; !result && slot < bench->config->nslots; slot++)
        result = memory_populate(memory, slot, 0, lane->npages, err);
    if (!result)
        result = bench_dirty_lane_list(bench, lane, NULL, lane->npages, err);
    return result ? result : bench_dirty_lane_store(bench, lane, &ns, err);
}

int bench_dirty_lane_open(struct bench_dirty *bench, struct bench_dirty_lane *lane,
                          struct error *err)
{
    const struct bench_dirty_config *config = bench->config;
    uint64_t npages[WRITER_VM_MAX_SLOTS];
    struct writer_vm_config vm = {
        .npages = npages,
        .nslots = config->nslots,
        .backing = config->backing,
        .ncpus = config->ncpus,
        .privilege = config->privilege,
        .max_list = config->nslots * lane->npages / config->ncpus + 1,
        .dirty_ring_entries = lane->backend == DIRTY_LOG_RING ? config->ring_entries : 0,
    };
    char name[BENCH_DIRTY_NAME_BYTES], size[16];
    int result;

    bench_progress("%s: touching %u x %s", bench_dirty_lane_name(lane, name, sizeof(name)),
                   config->nslots,
                   size_format(lane->npages * MEMORY_PAGE_BYTES, size, sizeof(size)));
    for (unsigned i = 0; i < config->nslots; i++)
        npages[i] = lane->npages;
    result = writer_vm_open(&lane->vm, bench->kvm, &vm, err);
    if (!result && config->pin)
        result = pin(bench, lane, err);
    return result ? result : touch(bench, lane, err);
}

void bench_dirty_lane_close(struct bench_dirty_lane *lane)
{
    dirty_log_close(lane->log);
    lane->log = NULL;
    writer_vm_close(lane->vm);
    lane->vm = NULL;
}

int bench_dirty_lane_list(struct bench_dirty *bench, struct bench_dirty_lane *lane,
                          const uint64_t *pages, uint64_t count, struct error *err)
{
    const struct bench_dirty_config *config = bench->config;
    uint64_t total = config->nslots * count;
    gpa_t *list = bench->list;
    int result = 0;

    for (unsigned slot = 0; slot < config->nslots; slot++) {
        for (uint64_t i = 0; i < count; i++)
            list[slot * count + i] = writer_vm_gpa(lane->vm, slot, pages ? pages[i] : i);
    }
    for (unsigned i = 0; !result && i < config->ncpus; i++) {
        uint64_t first = total * i / config->ncpus;
        uint64_t end = total * (i + 1) / config->ncpus;

        result = writer_vm_set_list(lane->vm, i, list + first, end - first, err);
    }
    return result;
}

int bench_dirty_lane_store(struct bench_dirty *bench, struct bench_dirty_lane *lane, uint64_t *ns,
                           struct error *err)
{
    struct writer_vm_result stored = {0};
    int result = writer_vm_write(lane->vm, ++bench->value, &stored, err);

    *ns = stored.guest_ns;
    return result;
}

int bench_dirty_lane_log(struct bench_dirty_lane *lane, struct error *err)
{
    const struct dirty_log_options options = {
        .backend = lane->backend, .chunk_pages = (uint32_t)lane->chunk, .ranges = lane->ranges};
    uint64_t begin_ns = clock_now_ns();
    int result = dirty_log_open(&lane->log, writer_vm_log(lane->vm), &options, err);

    if (result)
        return result;
    bench_samples_add(&lane->enable, clock_now_ns() - begin_ns);
    bench_samples_add(&lane->enable_ioctl, dirty_log_cost(lane->log).ioctl_ns);
    return 0;
}

void bench_dirty_lane_unlog(struct bench_dirty_lane *lane)
{
    uint64_t begin_ns = clock_now_ns();

    dirty_log_close(lane->log);
    lane->log = NULL;
    bench_samples_add(&lane->disable, clock_now_ns() - begin_ns);
}

void bench_dirty_lane_stats(struct bench_dirty_lane *lane, unsigned ncpus, int sign)
{
    bench_kvm_stats_add(&lane->stats, writer_vm_log(lane->vm)->vm_fd, sign);
    for (unsigned i = 0; i < ncpus; i++)
        bench_kvm_stats_add(&lane->stats, writer_vm_cpu_fd(lane->vm, i), sign);
}
