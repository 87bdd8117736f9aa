/* SPDX-License-Identifier: MIT
 *
 * A machine as the sink of a migration. */
#include <errno.h>
#include <stdlib.h>

#include "tools/binding.h"
#include "vmm/base/log.h"

static int check(void *opaque, const void *tree, size_t tree_bytes, struct error *err)
{
    struct binding_sink *binding = opaque;
    struct machine_description *description = malloc(sizeof(*description));
    int rc;

    if (!description)
        return error_set(err, ENOMEM, "no memory for a machine description");
    rc = machine_tree_parse(tree, tree_bytes, description, err);
    if (!rc)
        rc = machine_check(&binding->host->kvm, description, err);
    free(description);
    return rc;
}

static int create(void *opaque, const void *tree, size_t tree_bytes, struct migrate_layout *layout,
                  struct error *err)
{
    struct binding_sink *binding = opaque;
    struct machine *machine;
    int rc = machine_create(&machine, &binding->host->kvm, tree, tree_bytes, &binding->machine_host,
                            err);

    if (rc)
        return rc;
    binding_layout(machine_memory(machine), layout);
    binding->machine = machine;
    return 0;
}

static int populate(void *opaque, const struct migrate_chunk *chunk, struct error *err)
{
    struct binding_sink *binding = opaque;

    return memory_populate(machine_memory(binding->machine), chunk->region, chunk->first_page,
                           chunk->npages, err);
}

static int load(void *opaque, const void *state, size_t state_bytes, struct error *err)
{
    struct binding_sink *binding = opaque;

    return machine_restore(binding->machine, state, state_bytes, err);
}

static void run(void *opaque, bool running)
{
    struct binding_sink *binding = opaque;
    struct error err = {.text = ""};

    if (running && machine_resume(binding->machine, &err))
        log_error("the guest that arrived cannot run: %s", err.text); /* cannot be: it was paused */
    vm_host_set_machine(binding->host, binding->machine);
    binding->machine = NULL;
}

static void discard(void *opaque)
{
    struct binding_sink *binding = opaque;

    machine_destroy(binding->machine);
    binding->machine = NULL;
}

struct migrate_sink binding_sink_ops(struct binding_sink *binding)
{
    static const struct migrate_sink_ops ops = {.check = check,
                                                .create = create,
                                                .populate = populate,
                                                .load = load,
                                                .run = run,
                                                .discard = discard};

    return (struct migrate_sink){.ops = &ops, .opaque = binding};
}
