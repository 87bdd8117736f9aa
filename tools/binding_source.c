/* SPDX-License-Identifier: MIT
 *
 * A machine as the source of a migration. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/binding.h"
#include "vmm/base/bitmap.h"
#include "vmm/dirty_ring.h"

void binding_layout(const struct memory *memory, struct migrate_layout *layout)
{
    layout->nregions = memory->nregions;
    for (unsigned i = 0; i < memory->nregions; i++)
        layout->region[i] = (struct migrate_region){.gpa = memory->region[i].gpa,
                                                    .npages = memory->region[i].npages,
                                                    .hva = memory->region[i].hva,
                                                    .has_file = memory_in_file(memory),
                                                    .file = memory->region[i].fd};
}

static struct memory *memory_of(const struct binding_source *binding)
{
    return machine_memory(binding->host->machine);
}

static int describe(void *opaque, const void **tree, size_t *tree_bytes,
                    struct migrate_layout *layout, struct error *err)
{
    struct binding_source *binding = opaque;

    (void)err;
    *tree = machine_fdt(binding->host->machine, tree_bytes);
    binding_layout(memory_of(binding), layout);
    return 0;
}

static int populated(void *opaque, const struct migrate_chunk *chunk, uint64_t *words,
                     struct error *err)
{
    struct binding_source *binding = opaque;

    return memory_populated(memory_of(binding), chunk->region, chunk->first_page, chunk->npages,
                            words, &binding->populated, err);
}

static int log_start(void *opaque, struct error *err)
{
    struct binding_source *binding = opaque;

    struct dirty_log_vm vm = machine_dirty_log(binding->host->machine);

    if (vm.rings)
        binding->full_exits_before = dirty_rings_full_exits(vm.rings);
    return dirty_log_open(&binding->log, &vm, &binding->log_options, err);
}

static void log_stop(void *opaque)
{
    struct binding_source *binding = opaque;
    struct dirty_log_vm vm = machine_dirty_log(binding->host->machine);

    if (vm.rings)
        __atomic_store_n(&binding->ring_full_exits,
                         dirty_rings_full_exits(vm.rings) - binding->full_exits_before,
                         __ATOMIC_RELAXED);
    dirty_log_close(binding->log);
    binding->log = NULL;
    /* The guest waits for nothing any more: time for the last round, which the pause spared. */
    binding_recorder_finish(&binding->recorder, binding->moved);
}

static int alive(void *opaque, struct error *err)
{
    struct binding_source *binding = opaque;
    const struct machine *machine = binding->host->machine;

    if (machine_state(machine) == MACHINE_STOPPED)
        return error_set(err, ESHUTDOWN, "the guest ended during the migration: %.300s",
                         machine_exit(machine)->reason);
    return 0;
}

static int sync_log(void *opaque, uint64_t *pending_pages, struct error *err)
{
    struct binding_source *binding = opaque;
    struct dirty_log_sync found;
    int rc = alive(opaque, err);

    /* A round ends with the sync that follows it; the sync within the pause follows none. */
    binding_recorder_end_round(&binding->recorder);
    if (!rc)
        rc = dirty_log_sync(binding->log, &found, err);
    if (!rc)
        *pending_pages = found.pending_pages;
    return rc;
}

static int claim_and_sort(struct binding_source *binding, const struct migrate_chunk *chunk,
                          bool first_round, uint64_t *data, uint64_t *zero, struct error *err)
{
    const struct memory *memory = memory_of(binding);
    size_t nwords = bitmap_words(chunk->npages);
    uint64_t *words;
    int rc =
        dirty_log_claim(binding->log, chunk->region, chunk->first_page, chunk->npages, &words, err);

    if (rc)
        return rc;
    memcpy(data, words, nwords * sizeof(uint64_t));
    memset(zero, 0, nwords * sizeof(uint64_t));
    if (!bitmap_any(data, chunk->npages))
        return 0;
    if (first_round) {
        /* A hole is looked up after the clear, like any read. */
        uint64_t *present = realloc(binding->holes, nwords * sizeof(uint64_t));

        if (!present)
            return error_set(err, ENOMEM, "no memory for a chunk's bitmap");
        binding->holes = present;
        rc = memory_populated(memory, chunk->region, chunk->first_page, chunk->npages, present,
                              &binding->populated, err);
        for (size_t i = 0; !rc && i < nwords; i++)
            data[i] &= present[i];
    }
    if (!rc && (binding->zero_pages == BINDING_ZERO_ALL ||
                (first_round && binding->zero_pages == BINDING_ZERO_FIRST)))
        rc = memory_sort_zeros(memory, chunk->region, chunk->first_page, chunk->npages, data, zero,
                               err);
    return rc;
}

static int claim(void *opaque, const struct migrate_chunk *chunk, bool first_round, uint64_t *data,
                 uint64_t *zero, struct error *err)
{
    struct binding_source *binding = opaque;
    int rc = claim_and_sort(binding, chunk, first_round, data, zero, err);

    if (!rc)
        binding_recorder_claimed(&binding->recorder, chunk, data, zero);
    return rc;
}

static int throttle(void *opaque, unsigned percent, struct error *err)
{
    struct binding_source *binding = opaque;

    return machine_throttle(binding->host->machine, percent, err);
}

static int pause_guest(void *opaque, bool last, bool *was_running, struct error *err)
{
    struct binding_source *binding = opaque;

    return vm_host_engine_pause(binding->host, last, was_running, err);
}

static int save(void *opaque, void **state, size_t *state_bytes, struct error *err)
{
    struct binding_source *binding = opaque;

    return machine_save(binding->host->machine, state, state_bytes, err);
}

static int resume(void *opaque, bool run, struct error *err)
{
    struct binding_source *binding = opaque;

    return vm_host_engine_resume(binding->host, run, err);
}

static void moved(void *opaque)
{
    struct binding_source *binding = opaque;

    binding->moved = true;
    vm_host_engine_moved(binding->host);
}

struct migrate_source binding_source_ops(struct binding_source *binding)
{
    static const struct migrate_source_ops ops = {.describe = describe,
                                                  .populated = populated,
                                                  .log_start = log_start,
                                                  .sync = sync_log,
                                                  .claim = claim,
                                                  .throttle = throttle,
                                                  .alive = alive,
                                                  .pause = pause_guest,
                                                  .save = save,
                                                  .resume = resume,
                                                  .moved = moved,
                                                  .log_stop = log_stop};

    return (struct migrate_source){.ops = &ops, .opaque = binding};
}

int binding_source_record(struct binding_source *binding, const char *path, struct error *err)
{
    struct migrate_layout layout;

    binding_layout(memory_of(binding), &layout);
    return binding_recorder_start(&binding->recorder, path, &layout, err);
}

void binding_source_end(struct binding_source *binding)
{
    /* Only where the engine never came to logging. */
    binding_recorder_finish(&binding->recorder, false);
    free(binding->holes);
    binding->holes = NULL;
}
