/* SPDX-License-Identifier: MIT */
#include "tools/link_times.h"

#include <errno.h>

#include "migrate/channel.h"

int link_times_check(uint64_t deadline_ns, uint64_t keepalive_ns, struct error *err)
{
    if (deadline_ns < MIGRATE_MIN_DEADLINE_NS || deadline_ns > MIGRATE_MAX_DEADLINE_NS)
        return error_set(err, EINVAL, "the deadline must be from 100ms to 3600s");
    /* The kernel counts in seconds. */
    if (keepalive_ns < MIGRATE_MIN_KEEPALIVE_NS || keepalive_ns > MIGRATE_MAX_KEEPALIVE_NS)
        return error_set(err, EINVAL, "keep-alive must be from 1s to 3600s");
    return 0;
}
