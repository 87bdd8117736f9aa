/* SPDX-License-Identifier: MIT
 *
 * A source with a running guest and a receiver that waits for it: processes of this very program,
 * which do not outlive the bench, and their files in a directory of their own. */
#ifndef TOOLS_BENCH_PAIR_H
#define TOOLS_BENCH_PAIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/bench_migrate.h"

struct bench_pair {
    char directory[64];
    char uri[64]; /* where the receiver listens */
    pid_t source, target;
};

/* Starts both. On failure nothing is left. 0 or -errno with a line. */
int bench_pair_start(struct bench_pair *pair, const struct bench_migrate_config *config,
                     struct error *err);
/* Starts the migration, whose result goes to a file. */
int bench_pair_migrate(const struct bench_pair *pair, const struct bench_migrate_config *config,
                       pid_t *pid, struct error *err);
/* "source", "target" or "migrate": the last line that it said on stderr, or "it said nothing". */
void bench_pair_last_words(const struct bench_pair *pair, const char *who, char *text,
                           size_t text_bytes);
/* Ends both and removes the directory. */
void bench_pair_end(struct bench_pair *pair);

/* Whether the process has ended; its status as of waitpid(2). */
bool bench_process_ended(pid_t pid, int *status);

#endif
