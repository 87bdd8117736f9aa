/* SPDX-License-Identifier: MIT
 *
 * The oracle's book of pages: what each held at the last look and at the last report, and whether a
 * report is owed. Knows nothing of KVM, so that unit tests can lie to it. Internal to
 * dirty_oracle*.c. */
#ifndef TOOLS_DIRTY_ORACLE_JUDGE_H
#define TOOLS_DIRTY_ORACLE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/memory.h"

/* The device stores here; vCPU n at 8 * n. */
#define JUDGE_DEVICE_OFFSET 512u

struct judge_page;

struct judge {
    const struct memory *memory;
    unsigned nslots, ncpus;
    struct judge_page *pages[MEMORY_MAX_REGIONS];
    bool quiet; /* of this round */
    unsigned round;
    uint64_t reports;
    uint64_t lost_pages; /* each counted once */
    unsigned slot;       /* the first of them */
    uint64_t page;
    unsigned lost_round;
};

/* memory is borrowed; its first nslots regions are judged. judge_close() in any case. */
int judge_open(struct judge *judge, const struct memory *memory, unsigned nslots, unsigned ncpus,
               struct error *err);
void judge_close(struct judge *judge);

/* A round begins, after its fetch. quiet: nobody has stored since that fetch began. */
void judge_round(struct judge *judge, bool quiet);

/* Looks at a chunk just claimed: words as dirty_log_claim() left them. Each page must come up once
 * in a round. */
void judge_chunk(struct judge *judge, unsigned slot, uint64_t first_page, uint64_t npages,
                 const uint64_t *words);

/* Nobody stores any more and the last round is through: are the copies what the pages hold? */
void judge_copies(struct judge *judge);

#endif
