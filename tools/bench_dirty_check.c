/* SPDX-License-Identifier: MIT
 *
 * What only the host can tell of a command line of bench dirty-log: is it possible here? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_dirty.h"
#include "vmm/base/size.h"
#include "vmm/dirty_ring.h"

/* Room that is left to the host, and to what a VM needs beside its slots. */
#define SPARE_BYTES (256 * SIZE_MIB)
/* Entries that KVM keeps free in a ring (64, and 512 more for PML), and more. */
#define RING_RESERVE 1024u

static int check_ring(struct bench_dirty_config *config, const struct kvm *kvm, struct error *err)
{
    uint64_t largest = config->dirty.value[config->dirty.count - 1] * config->nslots;
    uint64_t entries = DIRTY_RING_DEFAULT_ENTRIES;
    int result;

    if (config->ring_entries) {
        result = dirty_rings_check(kvm, config->ring_entries, err);
        if (result)
            error_prefix(err, "--ring-entries");
        return result;
    }
    while (entries < largest / config->ncpus + RING_RESERVE &&
           2 * entries * DIRTY_RING_ENTRY_BYTES <= kvm->dirty_ring_max)
        entries *= 2;
    config->ring_entries = (uint32_t)entries;
    return dirty_rings_check(kvm, entries, err);
}

int bench_dirty_check(struct bench_dirty_config *config, const struct kvm *kvm, struct error *err)
{
    bool any = false;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++)
        any |= config->backend[i];
    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        enum dirty_log_backend backend = (enum dirty_log_backend)i;
        bool supported = dirty_log_supported(kvm, backend);

        if (any && config->backend[i] && !supported)
            return error_set(err, ENOTSUP,
                             "--backend: this host's KVM has no dirty-log backend '%s': see "
                             "pageferry info for those that it has",
                             dirty_log_backend_name(backend));
        config->backend[i] = any ? config->backend[i] : supported;
    }
    return config->backend[DIRTY_LOG_RING] ? check_ring(config, kvm, err) : 0;
}

static uint64_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kib = 0;

    while (file && !kib && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "MemAvailable:", strlen("MemAvailable:")) == 0)
            kib = strtoull(line + strlen("MemAvailable:"), NULL, 10);
    }
    if (file)
        (void)fclose(file);
    return kib * SIZE_KIB;
}

/* All lanes' memory is there at once: a VM that had to be made again would begin cold. */
int bench_dirty_check_memory(const struct bench_dirty *bench, struct error *err)
{
    uint64_t available = available_bytes();
    uint64_t wanted = 0;
    char has[16], needs[16];

    for (unsigned i = 0; i < bench->nlanes; i++)
        wanted += bench->lane[i].npages * bench->config->nslots * MEMORY_PAGE_BYTES;
    /* Huge pages of hugetlb are counted elsewhere, and mapping them tells. */
    if (bench->config->backing == MEMORY_HUGETLB || !available || wanted + SPARE_BYTES <= available)
        return 0;
    return error_set(err, ENOMEM,
                     "%u VMs need %s of memory, of which the host has %s: choose fewer with "
                     "--backend, or a smaller --slot",
                     bench->nlanes, size_format(wanted, needs, sizeof(needs)),
                     size_format(available, has, sizeof(has)));
}
