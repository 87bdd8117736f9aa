/* SPDX-License-Identifier: MIT
 *
 * The command line of pageferry migrate, and what of it are the source's parameters. */
#ifndef TOOLS_MIGRATE_OPTIONS_H
#define TOOLS_MIGRATE_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/options.h"

/* Words are borrowed from the command line. */
struct migrate_options {
    const char *control, *uri, *dirty_log, *record, *compress, *zerocopy, *zero_pages, *on_timeout,
        *throttle;
    uint64_t downtime_limit_ns, max_bandwidth, chunk_pages, streams, deadline_ns, keepalive_ns,
        timeout_ns;
    bool check, stop, json;
};

/* Bad options are reported. */
enum options_result migrate_options_parse(int argc, char **argv, struct migrate_options *options);

/* The arguments of migrate-set-parameters; the caller's. */
json_t *migrate_options_parameters(const struct migrate_options *options);

#endif
