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
#include "vmm/base/log.h"
#include "vmm/base/size.h"
#include "vmm/dirty_log_internal.h"

static const struct dirty_log_ops *const backends[DIRTY_LOG_NBACKENDS] = {
    [DIRTY_LOG_GET] = &dirty_log_get_ops,
    [DIRTY_LOG_CLEAR] = &dirty_log_clear_ops,
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
    return error_set(err, EINVAL, "'%s' is not a dirty-log backend: write get or clear", name);
}

bool dirty_log_supported(const struct kvm *kvm, enum dirty_log_backend backend)
{
    return (unsigned)backend < DIRTY_LOG_NBACKENDS && backends[backend]->supported(kvm);
}

enum dirty_log_backend dirty_log_best(const struct kvm *kvm)
{
    return dirty_log_supported(kvm, DIRTY_LOG_CLEAR) ? DIRTY_LOG_CLEAR : DIRTY_LOG_GET;
}

static int allocate(struct dirty_log *log, struct error *err)
{
    size_t most = 1;

    for (unsigned i = 0; i < log->memory->nregions; i++) {
        struct dirty_log_slot *slot = &log->slot[i];
        size_t nwords;

        slot->npages = log->memory->region[i].npages;
        nwords = bitmap_words(slot->npages);
        most = nwords > most ? nwords : most;
        slot->pending = calloc(nwords, sizeof(uint64_t));
        if (!slot->pending)
            return error_set(err, ENOMEM, "no memory for the dirty bitmaps");
        bitmap_set_range(slot->pending, 0, slot->npages);
    }
    log->scratch = calloc(most, sizeof(uint64_t));
    return log->scratch ? 0 : error_set(err, ENOMEM, "no memory for the dirty bitmaps");
}

static void release(struct dirty_log *log)
{
    for (unsigned i = 0; i < MEMORY_MAX_REGIONS; i++)
        free(log->slot[i].pending);
    free(log->scratch);
    free(log);
}

static int switch_off(const struct dirty_log *log, struct error *err)
{
    int result = memory_set_slots(log->memory, log->vm_fd, false, err);

    /* The next user of this VM finds it as it was created. */
    if (!result && log->kvm->manual_protect)
        result = dirty_log_set_manual(log, 0, err);
    return result;
}

int dirty_log_open(struct dirty_log **out, const struct kvm *kvm, int vm_fd, struct memory *memory,
                   enum dirty_log_backend backend, struct error *err)
{
    struct dirty_log *log;
    int result;

    *out = NULL;
    if (!dirty_log_supported(kvm, backend))
        return error_set(err, ENOTSUP, "this host's KVM has no dirty-log backend '%s'",
                         dirty_log_backend_name(backend));
    log = calloc(1, sizeof(*log));
    if (!log)
        return error_set(err, ENOMEM, "no memory for the dirty log");
    log->ops = backends[backend];
    log->kvm = kvm;
    log->vm_fd = vm_fd;
    log->memory = memory;
    result = allocate(log, err);
    if (result)
        goto out;
    result = log->ops->choose(log, err);
    if (result)
        goto out;
    result = memory_set_slots(memory, vm_fd, true, err);
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

int dirty_log_sync(struct dirty_log *log, uint64_t *pending_pages, struct error *err)
{
    uint64_t total = 0;

    if (log->failed)
        return failed_before(log, err);
    for (unsigned i = 0; i < log->memory->nregions; i++) {
        struct dirty_log_slot *slot = &log->slot[i];
        uint64_t *vmm_dirty = log->memory->region[i].vmm_dirty;
        size_t nwords = bitmap_words(slot->npages);
        int result = log->ops->fetch(log, i, err);

        if (result)
            return fail(log, result, err);
        for (size_t w = 0; w < nwords; w++)
            slot->pending[w] |= bitmap_take_word_atomic(&vmm_dirty[w]);
        total += bitmap_count(slot->pending, slot->npages);
    }
    *pending_pages = total;
    return 0;
}

/* Narrows [first, first + npages) to the words that hold a bit, for an ioctl that costs by length.
 * The caller knows that there is one. */
static int protect_claimed(const struct dirty_log *log, unsigned region, uint64_t first_page,
                           uint64_t npages, uint64_t *words, struct error *err)
{
    size_t begin = 0;
    size_t end = bitmap_words(npages);
    uint64_t skipped;

    while (!words[begin])
        begin++;
    while (!words[end - 1])
        end--;
    skipped = begin * BITMAP_WORD_BITS;
    /* Only a range that ends the slot may end inside a word. */
    if (end * BITMAP_WORD_BITS < npages)
        npages = end * BITMAP_WORD_BITS;
    return log->ops->protect(log, region, first_page + skipped, npages - skipped, words + begin,
                             err);
}

int dirty_log_claim(struct dirty_log *log, unsigned region, uint64_t first_page, uint64_t npages,
                    uint64_t *words, struct error *err)
{
    struct dirty_log_slot *slot = &log->slot[region];
    size_t first_word = (size_t)(first_page / BITMAP_WORD_BITS);
    size_t nwords = bitmap_words(npages);
    uint64_t *vmm_dirty;
    uint64_t any = 0;
    int result;

    assert(region < log->memory->nregions);
    assert(first_page % BITMAP_WORD_BITS == 0);
    assert(size_range_within(first_page, npages, slot->npages));
    assert(npages % BITMAP_WORD_BITS == 0 || first_page + npages == slot->npages);
    if (log->failed)
        return failed_before(log, err);
    vmm_dirty = log->memory->region[region].vmm_dirty;
    for (size_t i = 0; i < nwords; i++) {
        words[i] =
            slot->pending[first_word + i] | bitmap_take_word_atomic(&vmm_dirty[first_word + i]);
        slot->pending[first_word + i] = 0;
        any |= words[i];
    }
    if (!any || !log->ops->protect)
        return 0;
    result = protect_claimed(log, region, first_page, npages, words, err);
    return result ? fail(log, result, err) : 0;
}
