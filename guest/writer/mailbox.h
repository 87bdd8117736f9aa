/* SPDX-License-Identifier: MIT
 *
 * The mailbox between a writer vCPU and its VMM: one page of plain memory for each vCPU. The VMM
 * fills in a job and then its number; the guest polls the number, does the job, and stores the
 * number into `done`. Included by assembler too, which has the offsets only. */
#ifndef GUEST_WRITER_MAILBOX_H
#define GUEST_WRITER_MAILBOX_H

#define WRITER_JOB_LIST 1 /* store `value` into every page of the list, once, in order */
#define WRITER_JOB_ROAM \
    2 /* store numbers into pages of the list until `stop` is the job's number */

#define WRITER_AT_JOB       0
#define WRITER_AT_KIND      8
#define WRITER_AT_LIST      16
#define WRITER_AT_NPAGES    24
#define WRITER_AT_OFFSET    32
#define WRITER_AT_VALUE     40
#define WRITER_AT_STOP      48
#define WRITER_AT_DONE      128
#define WRITER_AT_STORES    136
#define WRITER_AT_BEGIN_TSC 144
#define WRITER_AT_END_TSC   152

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

/* All addresses are the guest's. The two halves lie in cache lines of their own. */
struct writer_mailbox {
    /* VMM */
    uint64_t job;    /* number of the job; 0 = none yet. Stored last */
    uint64_t kind;   /* WRITER_JOB_* */
    uint64_t list;   /* addresses of pages, 64 bits each */
    uint64_t npages; /* their number; at least 1 to roam */
    uint64_t offset; /* where in a page to store */
    uint64_t value;
    uint64_t stop;
    uint64_t unused[9];
    /* Guest */
    uint64_t done;   /* number of the last job that is through */
    uint64_t stores; /* made so far, all jobs; also what a roaming vCPU stores */
    uint64_t begin_tsc, end_tsc;
};

_Static_assert(offsetof(struct writer_mailbox, job) == WRITER_AT_JOB, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, kind) == WRITER_AT_KIND, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, list) == WRITER_AT_LIST, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, npages) == WRITER_AT_NPAGES, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, offset) == WRITER_AT_OFFSET, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, value) == WRITER_AT_VALUE, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, stop) == WRITER_AT_STOP, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, done) == WRITER_AT_DONE, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, stores) == WRITER_AT_STORES, "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, begin_tsc) == WRITER_AT_BEGIN_TSC,
               "as assembler has it");
_Static_assert(offsetof(struct writer_mailbox, end_tsc) == WRITER_AT_END_TSC,
               "as assembler has it");

/* The writer's code: position-independent, long mode, ring 3 or 0, no stack. Enter at its first
 * byte with rbp = mailbox, r15 = seed of the random sequence, r9 = r14 = 0. */
extern const uint8_t writer_code_start[];
extern const uint8_t writer_code_end[];

#endif
#endif
