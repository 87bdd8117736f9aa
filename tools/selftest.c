/* SPDX-License-Identifier: MIT */
#include "tools/selftest.h"

#include <string.h>

#include "vmm/dirty_ring.h"

/* Runs full in every sweep of the larger slots, and is large enough for hosts whose KVM keeps
 * some 600 entries in reserve. */
#define SMALL_RING 1024u

#define LARGE_PAGES (4096u + 37u)

/* Slots of one VM; several VMs where a case has several rows. */
struct layout {
    enum selftest_kind kind;
    enum memory_backing backing;
    unsigned nslots;
    uint64_t npages[5];
};

static const struct layout layouts[] = {
    {SELFTEST_SMALL, MEMORY_ANON, 1, {1}},
    {SELFTEST_SMALL, MEMORY_ANON, 1, {63}},
    {SELFTEST_SMALL, MEMORY_ANON, 1, {64}},
    {SELFTEST_SMALL, MEMORY_ANON, 1, {65}},
    {SELFTEST_LARGE, MEMORY_THP, 1, {LARGE_PAGES}},
    {SELFTEST_SEVERAL, MEMORY_MEMFD, 5, {1, 63, 64, 65, 1024 + 37}},
    {SELFTEST_FULL, MEMORY_THP, 1, {LARGE_PAGES}},
};

#define NLAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static const struct {
    const char *name, *text;
    unsigned campaigns, rounds;
    uint64_t stores;
    unsigned sweeps;
} kinds[SELFTEST_NKINDS] = {
    [SELFTEST_SMALL] = {"small", "slots of 1, 63, 64, 65 pages", 2, 5, 60, 1},
    [SELFTEST_LARGE] = {"large", "a slot of 4133 pages", 2, 5, 60, 1},
    [SELFTEST_SEVERAL] = {"several", "five slots in one VM", 2, 5, 60, 1},
    [SELFTEST_FULL] = {"full", "more pages than a ring holds", 1, 2, 60, 3},
};

const char *selftest_kind_name(enum selftest_kind kind)
{
    return kinds[kind].name;
}

const char *selftest_kind_text(enum selftest_kind kind)
{
    return kinds[kind].text;
}

int selftest_case(const struct kvm *kvm, enum dirty_log_backend backend, enum selftest_kind kind,
                  unsigned privilege, unsigned ncpus, struct dirty_oracle_verdict *verdict,
                  struct error *err)
{
    int ret = 0;

    memset(verdict, 0, sizeof(*verdict));
    for (size_t i = 0; !ret && verdict->result == DIRTY_ORACLE_OK && i < NLAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        struct dirty_oracle_case test = {
            .log = {.backend = backend},
            .backing = layout->backing,
            .privilege = privilege,
            .ncpus = ncpus,
            .npages = layout->npages,
            .nslots = layout->nslots,
            .ring_entries = kind == SELFTEST_FULL ? SMALL_RING : 0,
            .campaigns = kinds[kind].campaigns,
            .rounds = kinds[kind].rounds,
            .stores = kinds[kind].stores,
            .sweeps = kinds[kind].sweeps,
        };
        struct dirty_oracle_verdict sum = *verdict;

        if (layout->kind != kind)
            continue;
        ret = dirty_oracle_run(kvm, &test, verdict, err);
        verdict->reports += sum.reports;
        verdict->stores += sum.stores;
        verdict->full_exits += sum.full_exits;
    }
    return ret;
}

int selftest_quick(const struct kvm *kvm, enum dirty_log_backend backend, uint32_t ring_entries,
                   const bool *cancelled, struct dirty_oracle_verdict *verdict, struct error *err)
{
    static const uint64_t few[] = {65, 256 + 37};
    static const uint64_t more_than_a_ring[] = {65, SMALL_RING - 37};
    bool ring = backend == DIRTY_LOG_RING;
    struct dirty_oracle_case test = {
        .log = {.backend = backend},
        .backing = MEMORY_THP,
        .privilege = 3,
        .ncpus = 1,
        .npages = ring ? more_than_a_ring : few,
        .nslots = 2,
        .ring_entries = ring_entries < SMALL_RING ? ring_entries : SMALL_RING,
        .campaigns = 1,
        .rounds = 3,
        .stores = 50,
        .sweeps = 1,
        .cancelled = cancelled,
    };

    return dirty_oracle_run(kvm, &test, verdict, err);
}

const char *selftest_known_broken(const char *flavour, enum dirty_log_backend backend)
{
    if (backend == DIRTY_LOG_RING && strcmp(flavour, "kvm_pvm") == 0)
        return "kvm_pvm may run over a dirty ring while a guest's kernel (ring 0) stores, and then "
               "loses pages: pageferry notices and fails the migration";
    return NULL;
}
