/* SPDX-License-Identifier: MIT */
#include "migrate/pace.h"

#include "migrate/endpoint.h"
#include "vmm/base/clock.h"

void pace_init(struct pace *pace, uint64_t bytes_per_s, uint64_t now_ns)
{
    pace->bytes_per_s = bytes_per_s;
    pace->next_ns = now_ns;
}

uint64_t pace_wait_ns(const struct pace *pace, uint64_t now_ns)
{
    if (!pace->bytes_per_s || pace->next_ns <= now_ns)
        return 0;
    return pace->next_ns - now_ns;
}

void pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_ns)
{
    if (!pace->bytes_per_s)
        return;
    if (now_ns > PACE_CATCH_UP_NS && pace->next_ns < now_ns - PACE_CATCH_UP_NS)
        pace->next_ns = now_ns - PACE_CATCH_UP_NS;
    pace->next_ns +=
        (uint64_t)((double)bytes / (double)pace->bytes_per_s * (double)CLOCK_NS_PER_SEC);
}

uint64_t pace_batch_bytes(const struct pace *pace, uint64_t max_bytes)
{
    uint64_t bytes = pace->bytes_per_s / (CLOCK_NS_PER_SEC / PACE_CATCH_UP_NS);

    if (!pace->bytes_per_s || bytes > max_bytes)
        return max_bytes;
    return bytes < MIGRATE_PAGE_BYTES ? MIGRATE_PAGE_BYTES : bytes;
}
