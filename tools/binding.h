/* SPDX-License-Identifier: MIT
 *
 * Joins the two floors: a machine as the source and the sink of a migration. */
#ifndef TOOLS_BINDING_H
#define TOOLS_BINDING_H

#include "migrate/endpoint.h"
#include "tools/binding_recorder.h"
#include "tools/vm_host.h"
#include "vmm/dirty_log.h"

/* Where a machine's RAM is, as the engine wants to know it. */
void binding_layout(const struct memory *memory, struct migrate_layout *layout);

/* In which rounds pages are looked at for zeros. After the first a page was written lately, and
 * seldom with zeros. */
enum binding_zero_pages { BINDING_ZERO_FIRST, BINDING_ZERO_ALL, BINDING_ZERO_OFF };

struct binding_source {
    struct vm_host *host;
    struct dirty_log_options log_options;
    struct dirty_log *log;          /* while the engine logs */
    uint64_t *holes;                /* one chunk's words */
    struct memory_extent populated; /* found last */
    enum binding_zero_pages zero_pages;
    bool moved; /* the guest runs elsewhere */
    struct binding_recorder recorder;
    uint64_t full_exits_before;
    uint64_t ring_full_exits; /* atomic: of the last log, once it ended */
};

/* The source of the host's machine; borrowed for one migration. */
struct migrate_source binding_source_ops(struct binding_source *binding);
/* Every round's claimed pages go to a recording at `path`; before the migration begins. */
int binding_source_record(struct binding_source *binding, const char *path, struct error *err);
/* After the migration: what it needed is freed. The recorder's outcome stays, for
 * binding_recorder_free(). */
void binding_source_end(struct binding_source *binding);

struct binding_sink {
    struct vm_host *host;
    struct machine_host machine_host;
    struct machine *machine; /* between create() and run(), not yet the host's */
};

/* The sink makes a machine that is the host's once it runs. */
struct migrate_sink binding_sink_ops(struct binding_sink *binding);

#endif
