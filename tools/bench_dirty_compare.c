/* SPDX-License-Identifier: MIT
 *
 * An earlier run of bench dirty-log beside this one. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/bench_dirty.h"
#include "vmm/base/log.h"

static bool same_text(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value && strcmp(value, text) == 0;
}

static bool same_number(const json_t *object, const char *key, uint64_t number)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) && json_integer_value(value) == (json_int_t)number;
}

static bool same_lane(const json_t *object, const struct bench_dirty_lane *lane)
{
    if (!same_text(object, "backend", dirty_log_backend_name(lane->backend)) ||
        !same_number(object, "slot_bytes", lane->npages * MEMORY_PAGE_BYTES))
        return false;
    return lane->backend != DIRTY_LOG_CLEAR ||
           (same_number(object, "chunk", lane->chunk) &&
            same_text(object, "ranges", bench_dirty_ranges_name(lane->ranges)));
}

static uint64_t find_row(const json_t *rows, const struct bench_dirty_row *row)
{
    size_t index;
    json_t *candidate;

    json_array_foreach(rows, index, candidate)
    {
        json_int_t median =
            json_integer_value(json_object_get(json_object_get(candidate, "pass_ns"), "median"));

        if (same_number(candidate, "dirty", row->dirty) &&
            json_is_true(json_object_get(candidate, "vcpus_running")) == row->running)
            return median > 0 ? (uint64_t)median : 0;
    }
    return 0;
}

static unsigned compare_lane(const json_t *lanes, struct bench_dirty_lane *lane, unsigned nrows)
{
    unsigned found = 0;
    size_t index;
    json_t *candidate;

    json_array_foreach(lanes, index, candidate)
    {
        if (!same_lane(candidate, lane))
            continue;
        for (unsigned i = 0; i < nrows; i++) {
            lane->row[i].before_ns = find_row(json_object_get(candidate, "rows"), &lane->row[i]);
            found += lane->row[i].before_ns != 0;
        }
        break;
    }
    return found;
}

/* Numbers from other conditions may be set beside each other, but not unknowingly. */
static void warn_of_differences(const json_t *before, const struct bench_dirty_config *config)
{
    if (!same_text(before, "pattern", bench_pattern_name(config->pattern)) ||
        !same_text(before, "backing", memory_backing_name(config->backing)) ||
        !same_number(before, "slots", config->nslots) ||
        !same_number(before, "vcpus", config->ncpus) ||
        !same_number(before, "ring", config->privilege))
        log_warning("--compare: the earlier run had another pattern, backing, number of slots or "
                    "vCPUs, or ring");
}

int bench_dirty_compare(struct bench_dirty *bench, const char *path, struct error *err)
{
    json_error_t why;
    json_t *before = json_load_file(path, 0, &why);
    unsigned found = 0;
    int result = 0;

    if (!before)
        return error_set(err, EINVAL, "--compare %s: not a JSON file: %s", path, why.text);
    if (!same_text(before, "bench", "dirty-log"))
        result = error_set(err, EINVAL, "--compare %s: this is no output of bench dirty-log --json",
                           path);
    for (unsigned i = 0; !result && i < bench->nlanes; i++)
        found += compare_lane(json_object_get(before, "lanes"), &bench->lane[i], bench->nrows);
    if (!result && !found)
        result = error_set(err, EINVAL,
                           "--compare %s: it has no row of this run: give the options of that "
                           "run",
                           path);
    if (!result && found < bench->nlanes * bench->nrows)
        log_warning("--compare: %u of %u rows are in that run", found,
                    bench->nlanes * bench->nrows);
    if (!result)
        warn_of_differences(before, bench->config);
    json_decref(before);
    return result;
}
