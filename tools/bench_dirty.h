/* SPDX-License-Identifier: MIT
 *
 * pageferry bench dirty-log: what a pass over the dirty log costs, by the number of dirty pages.
 *
 * Several lanes are measured, each a way of logging with a VM of its own. An iteration goes through
 * all rows (numbers of dirty pages), and through all lanes in each row, so that what disturbs the
 * host disturbs all alike. */
#ifndef TOOLS_BENCH_DIRTY_H
#define TOOLS_BENCH_DIRTY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "tools/bench_format.h"
#include "tools/bench_kvm_stats.h"
#include "tools/bench_numbers.h"
#include "tools/bench_pattern.h"
#include "tools/bench_samples.h"
#include "tools/host_facts.h"
#include "tools/options.h"
#include "tools/writer_vm.h"
#include "vmm/dirty_log.h"

#define BENCH_DIRTY_NRANGES    3
#define BENCH_DIRTY_MAX_LANES  16
#define BENCH_DIRTY_MAX_CPUS   (1 + WRITER_VM_MAX_CPUS)
#define BENCH_DIRTY_NAME_BYTES 64

struct bench_dirty_config {
    uint64_t npages; /* of each slot */
    unsigned nslots;
    struct bench_numbers dirty; /* rows: pages of each slot */
    enum bench_pattern pattern;
    bool backend[DIRTY_LOG_NBACKENDS]; /* none: all that the host has */
    bool ranges[BENCH_DIRTY_NRANGES];
    struct bench_numbers chunk;   /* pages */
    struct bench_numbers touched; /* --enable: bytes; the bench of switching instead */
    unsigned iterations, ncpus, privilege;
    uint32_t ring_entries; /* 0: as many as the largest row needs, up to the host's limit */
    enum memory_backing backing;
    bool also_running, pin;
    bool table_2012; /* print as that table */
    enum bench_format format;
    const char *compare; /* file, or NULL */
};

/* Options of the command line, checked as far as they can be without KVM. */
enum options_result bench_dirty_options(int argc, char **argv, struct bench_dirty_config *config);
/* The rest of the checks; chooses backends and ring size that were left open. */
int bench_dirty_check(struct bench_dirty_config *config, const struct kvm *kvm, struct error *err);

const char *bench_dirty_ranges_name(enum dirty_log_ranges ranges);

/* What is measured in each pass. */
enum bench_metric {
    BENCH_PASS,    /* sync, all claims, and the walk */
    BENCH_IOCTL,   /* of that, in ioctls */
    BENCH_WALK,    /* of that, from words to runs */
    BENCH_HARVEST, /* of that, reading rings; 0 for the others */
    BENCH_REST,    /* what is left */
    BENCH_FETCH,   /* ioctls of the sync */
    BENCH_PROTECT, /* ioctls of the claims */
    BENCH_LONGEST, /* the longest single ioctl */
    BENCH_WRITE,   /* the guest's time over its stores */
};

#define BENCH_NMETRICS 9

/* What one pass found, and took. */
struct bench_pass {
    uint64_t ns[BENCH_NMETRICS];
    uint64_t nioctls, pages, runs, words;
};

struct bench_dirty_row {
    uint64_t dirty; /* of each slot */
    bool running;   /* vCPUs ran while the pass was made */
    struct bench_samples metric[BENCH_NMETRICS];
    struct bench_pass last;
    uint64_t pages;          /* that were stored to, all slots */
    uint64_t extra;          /* most that a pass found beside them */
    uint64_t full_exits;     /* vCPUs that left the guest because their ring was full, all passes */
    uint64_t unprotected_ns; /* BENCH_WRITE with logging off */
    struct bench_summary summary[BENCH_NMETRICS];
    uint64_t before_ns; /* median of a pass in the run that is compared with; 0 = none */
};

struct bench_dirty_lane {
    enum dirty_log_backend backend;
    enum dirty_log_ranges ranges;
    uint64_t chunk;
    uint64_t npages; /* of each slot */
    struct writer_vm *vm;
    struct dirty_log *log;
    struct bench_dirty_row *row; /* dirty.count of them, twice where running ones are there too */
    uint64_t **words;            /* of each slot: what a pass found; the log's */
    struct bench_kvm_stats stats;
    struct bench_samples enable, disable; /* how long switching took… */
    struct bench_samples enable_ioctl;    /* …of which KVM's ioctl on the slots */
    struct bench_summary enabling, enabling_ioctl, disabling;
    struct bench_pass first; /* the pass after switching on: everything is dirty */
};

struct bench_dirty {
    const struct bench_dirty_config *config;
    const struct kvm *kvm;
    struct host_facts host;
    unsigned nlanes, nrows; /* nrows: of each lane */
    struct bench_dirty_lane lane[BENCH_DIRTY_MAX_LANES];
    unsigned ncpus; /* of the host, for --pin */
    int cpu[BENCH_DIRTY_MAX_CPUS];
    uint64_t *pages;  /* of one slot, the row that is measured */
    uint64_t *wanted; /* the same as bits */
    gpa_t *list;
    uint64_t value; /* of the last store */
};

/* Does the host have the memory? */
int bench_dirty_check_memory(const struct bench_dirty *bench, struct error *err);

/* Rows and lanes with their room, no VM yet. bench_dirty_free() also after a failure. */
int bench_dirty_init(struct bench_dirty *bench, const struct bench_dirty_config *config,
                     const struct kvm *kvm, struct error *err);
void bench_dirty_free(struct bench_dirty *bench);

/* "clear, chunk 16384, narrow" */
const char *bench_dirty_lane_name(const struct bench_dirty_lane *lane, char *text, size_t bytes);

/* Measures everything. */
int bench_dirty_run(struct bench_dirty *bench, struct error *err);
void bench_dirty_summarize(struct bench_dirty *bench);

/* What the guest pays for its stores being logged, and one of them: beyond what they cost without
 * protection; 0 where the guest's clock is unknown. */
uint64_t bench_dirty_stall_ns(const struct bench_dirty_row *row);

/* Fills in before_ns from an earlier run's JSON, and says which rows it lacks. -EINVAL where there
 * is none, or something else. */
int bench_dirty_compare(struct bench_dirty *bench, const char *path, struct error *err);

/* The report. NULL without memory. */
json_t *bench_dirty_json(const struct bench_dirty *bench);
void bench_dirty_print(const struct bench_dirty *bench);
void bench_dirty_print_csv(const struct bench_dirty *bench);

#endif
