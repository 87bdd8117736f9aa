/* SPDX-License-Identifier: MIT */
#include "tools/machine_host_options.h"

#include <errno.h>
#include <string.h>

#include "tools/host_facts.h"
#include "tools/selftest.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"
#include "vmm/dirty_ring.h"

static int parse_dirty_log(const char *text, uint64_t *ring_entries, struct error *err)
{
    static const char sized[] = "ring:";

    *ring_entries = 0;
    if (strcmp(text, "bitmap") == 0)
        return 0;
    *ring_entries = DIRTY_RING_DEFAULT_ENTRIES;
    if (strcmp(text, "ring") == 0)
        return 0;
    if (strncmp(text, sized, strlen(sized)) == 0)
        return size_parse(text + strlen(sized), ring_entries, err);
    if (strcmp(text, "get") == 0 || strcmp(text, "clear") == 0)
        return error_set(err, EINVAL,
                         "'%s' is chosen by migrate --dirty-log: write bitmap, ring or "
                         "ring:ENTRIES here",
                         text);
    return error_set(err, EINVAL, "'%.100s' is no dirty log: write bitmap, ring or ring:ENTRIES",
                     text);
}

static void announce_ring(uint32_t entries)
{
    struct host_facts facts;
    const char *known;

    log_info("dirty log: a ring of %u entries for every vCPU", entries);
    host_facts_read(&facts);
    known = selftest_known_broken(facts.text[HOST_KVM], DIRTY_LOG_RING);
    if (known)
        log_warning("%s", known);
}

int machine_host_options_parse(const struct kvm *kvm, const char *backing, const char *dirty_log,
                               struct machine_host *host, struct error *err)
{
    uint64_t entries = 0;
    int result = memory_backing_parse(backing, &host->backing, err);

    if (result)
        return result;
    result = parse_dirty_log(dirty_log, &entries, err);
    if (!result && strcmp(dirty_log, "bitmap") != 0)
        result = dirty_rings_check(kvm, entries, err);
    if (result) {
        error_prefix(err, "--dirty-log");
        return result;
    }
    host->dirty_ring_entries = (uint32_t)entries;
    if (entries)
        announce_ring(host->dirty_ring_entries);
    return 0;
}

int machine_host_options_trace(const char *what, struct machine_host *host, struct error *err)
{
    if (what && strcmp(what, "exits") != 0)
        return error_set(err, EINVAL, "--trace: '%.100s' cannot be traced: write exits", what);
    host->trace_exits = what != NULL;
    return 0;
}
