/* SPDX-License-Identifier: MIT
 *
 * The life of a dirty bit between the kernel and the engine: fetched into pending by sync, moved
 * out by claim, re-protected before the page may be read. */
#include "vmm/dirty_log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/bitmap.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"
#include "vmm/dirty_log_internal.h"

static const struct dirty_log_ops *const backends[DIRTY_LOG_NBACKENDS] = {
    [DIRTY_LOG_GET] = &dirty_log_get_ops,
    [DIRTY_LOG_CLEAR] = &dirty_log_clear_ops,
    [DIRTY_LOG_RING] = &dirty_log_ring_ops,
};

const char *dirty_log_backend_name(enum dirty_log_backend backend)
{
    return (unsigned)backend < DIRTY_LOG_NBACKENDS ? backends[backend]->name : "?";
}

int dirty_log_backend_parse(const char *name, enum dirty_log_backend *backend, struct error *err)
{
    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        if (strcmp(name, backends[i]->name) == 0) {
            *backend = (enum dirty_log_backend)i;
            return 0;
        }
    }
    return error_set(err, EINVAL, "'%s' is not a dirty-log backend: write get, clear or ring",
                     name);
}

bool dirty_log_supported(const struct kvm *kvm, enum dirty_log_backend backend)
{
    return (unsigned)backend < DIRTY_LOG_NBACKENDS && backends[backend]->supported(kvm);
}

enum dirty_log_backend dirty_log_best(const struct kvm *kvm, const struct dirty_rings *rings)
{
    if (rings)
        return DIRTY_LOG_RING;
    return dirty_log_supported(kvm, DIRTY_LOG_CLEAR) ? DIRTY_LOG_CLEAR : DIRTY_LOG_GET;
}

int dirty_log_ioctl(struct dirty_log *log, unsigned long request, const char *name, void *argument,
                    struct error *err)
{
    uint64_t begin_ns = clock_now_ns();
    int result = kvm_ioctl(log->vm.vm_fd, request, name, argument, err);

    dirty_log_count_ioctl(log, clock_now_ns() - begin_ns);
    return result;
}

void dirty_log_count_ioctl(struct dirty_log *log, uint64_t ns)
{
    log->cost.nioctls++;
    log->cost.ioctl_ns += ns;
    if (ns > log->cost.longest_ns)
        log->cost.longest_ns = ns;
}

struct dirty_log_cost dirty_log_cost(const struct dirty_log *log)
{
    return log->cost;
}

void dirty_log_cost_reset(struct dirty_log *log)
{
    log->cost = (struct dirty_log_cost){0};
}

static int allocate(struct dirty_log *log, struct error *err)
{
    size_t most = 1;

    for (unsigned i = 0; i < log->vm.memory->nregions; i++) {
        const struct memory_region *region = &log->vm.memory->region[i];
        struct dirty_log_slot *slot = &log->slot[i];
        int result;

        if (region->unlogged)
            continue;
        result = dirty_log_slot_init(slot, region->npages, err);
        if (result)
            return result;
        most = slot->nwords > most ? slot->nwords : most;
    }
    log->scratch = malloc(most * sizeof(uint64_t));
    return log->scratch ? 0 : error_set(err, ENOMEM, "no memory for the dirty bitmaps");
}

static void release(struct dirty_log *log)
{
    for (unsigned i = 0; i < MEMORY_MAX_REGIONS; i++)
        dirty_log_slot_free(&log->slot[i]);
    free(log->scratch);
    free(log);
}

static int switch_off(struct dirty_log *log, struct error *err)
{
    int result = memory_set_slots(log->vm.memory, log->vm.vm_fd, false, err);

    /* The next user of this VM finds it as it was created. */
    if (!result && log->options.backend == DIRTY_LOG_CLEAR)
        result = dirty_log_set_manual(log, 0, err);
    if (log->ops->end)
        log->ops->end(log);
    return result;
}

int dirty_log_check(const struct dirty_log_vm *vm, enum dirty_log_backend backend,
                    struct error *err)
{
    const char *name = dirty_log_backend_name(backend);

    if (!dirty_log_supported(vm->kvm, backend))
        return error_set(err, ENOTSUP,
                         "this host's KVM has no dirty-log backend '%s': see pageferry info", name);
    if (backend == DIRTY_LOG_RING && !vm->rings)
        return error_set(err, ENOTSUP,
                         "this guest has no dirty ring: it is chosen when the guest is started "
                         "(--dirty-log ring)");
    if (backend != DIRTY_LOG_RING && vm->rings)
        return error_set(err, ENOTSUP,
                         "this guest was started with a dirty ring, beside which KVM has no '%s'",
                         name);
    return 0;
}

int dirty_log_open(struct dirty_log **out, const struct dirty_log_vm *vm,
                   const struct dirty_log_options *options, struct error *err)
{
    struct dirty_log *log;
    uint64_t begin_ns;
    int result = dirty_log_check(vm, options->backend, err);

    assert(options->chunk_pages % BITMAP_WORD_BITS == 0);
    *out = NULL;
    if (result)
        return result;
    log = calloc(1, sizeof(*log));
    if (!log)
        return error_set(err, ENOMEM, "no memory for the dirty log");
    log->ops = backends[options->backend];
    log->vm = *vm;
    log->options = *options;
    if (!log->options.chunk_pages)
        log->options.chunk_pages = DIRTY_LOG_CHUNK_PAGES;
    result = allocate(log, err);
    if (result)
        goto out;
    result = log->ops->choose(log, err);
    if (result)
        goto out;
    begin_ns = clock_now_ns();
    result = memory_set_slots(vm->memory, vm->vm_fd, true, err);
    dirty_log_count_ioctl(log, clock_now_ns() - begin_ns);
    if (result) {
        (void)switch_off(log, NULL);
        goto out;
    }
    *out = log;
out:
    if (result)
        release(log);
    return result;
}

void dirty_log_close(struct dirty_log *log)
{
    struct error err = {""};

    if (!log)
        return;
    if (switch_off(log, &err))
        log_error("dirty logging could not be switched off: %s", err.text);
    release(log);
}

/* An ioctl that failed may have taken bits with it: no later claim may pretend to be complete. */
static int fail(struct dirty_log *log, int result, struct error *err)
{
    log->failed = result;
    if (err)
        log->why = *err;
    return result;
}

static int failed_before(const struct dirty_log *log, struct error *err)
{
    return error_set(err, -log->failed, "the dirty log failed before: %s", log->why.text);
}

static int sync_slot(struct dirty_log *log, unsigned i, uint64_t *npages, struct error *err)
{
    struct dirty_log_slot *slot = &log->slot[i];
    int result = log->ops->fetch(log, i, dirty_log_slot_renew(slot), npages, err);

    if (!result && memory_take_marks(log->vm.memory, i, slot->pending))
        *npages = bitmap_count(slot->pending, slot->npages);
    return result;
}

int dirty_log_sync(struct dirty_log *log, struct dirty_log_sync *found, struct error *err)
{
    int result = 0;

    if (log->failed)
        return failed_before(log, err);
    memset(found, 0, sizeof(*found));
    if (log->ops->begin)
        result = log->ops->begin(log, err);
    for (unsigned i = 0; !result && i < log->vm.memory->nregions; i++) {
        uint64_t before_ns = log->cost.ioctl_ns;

        if (!log->slot[i].logged)
            continue;
        result = sync_slot(log, i, &found->slot[i].pending_pages, err);
        found->slot[i].ns = log->cost.ioctl_ns - before_ns;
        found->pending_pages += found->slot[i].pending_pages;
    }
    return result ? fail(log, result, err) : 0;
}

int dirty_log_claim(struct dirty_log *log, unsigned region, uint64_t first_page, uint64_t npages,
                    uint64_t **words, struct error *err)
{
    struct dirty_log_slot *slot = &log->slot[region];
    size_t first_word = (size_t)(first_page / BITMAP_WORD_BITS);
    size_t nwords = bitmap_words(npages);
    int result;

    assert(region < log->vm.memory->nregions && slot->logged);
    assert(first_page % BITMAP_WORD_BITS == 0);
    assert(size_range_within(first_page, npages, slot->npages));
    assert(npages % BITMAP_WORD_BITS == 0 || first_page + npages == slot->npages);
    if (log->failed)
        return failed_before(log, err);
    *words = dirty_log_slot_claim(slot, first_word, nwords);
    /* A page that the VMM wrote since the sync is sent once if it is pending anyway. */
    (void)memory_take_marks_range(log->vm.memory, region, first_word, nwords, *words);
    if (!log->ops->protect)
        return 0;
    result = log->ops->protect(log, region, first_page, npages, *words, err);
    return result ? fail(log, result, err) : 0;
}
