/* SPDX-License-Identifier: MIT */
#include "tools/bench_migrate.h"
#include <errno.h>
int bench_migrate_guest(const struct bench_migrate_config *config, struct bench_migrate_row *row,
                        struct error *err)
{
    (void)config;
    (void)row;
    return error_set(err, ENOTSUP, "for now --engine only");
}
