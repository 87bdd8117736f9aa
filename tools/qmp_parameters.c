/* SPDX-License-Identifier: MIT
 *
 * Names without "x-" and their units are QEMU's (qapi/migration.json). */
#include "tools/qmp_parameters.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/link_times.h"
#include "vmm/base/clock.h"

#define MAX_DOWNTIME_LIMIT_MS 2000000
#define MAX_TIMEOUT_MS        (1000ull * 86400 * 365)
#define MAX_MS                3600000

static const char accepted[] =
    "downtime-limit in ms up to 2000000, x-downtime-limit-ns, max-bandwidth in bytes/s (0 or at "
    "least 65536), multifd-channels (1 to 16), multifd-compression (none, zstd or lz4), "
    "multifd-zstd-level (1 to 19), x-zero-copy (on, off or auto), x-zero-pages (first, all or "
    "off), x-chunk-pages (a multiple of 64 up to 1048576), x-deadline-ms (100 to 3600000), "
    "x-timeout-ms (0 for none), x-on-timeout (cancel or switch), x-throttle (\"auto\" or \"0\" to "
    "\"99\"), x-keepalive-ms (1000 to 3600000), x-dirty-log (auto, get, clear or ring)";

/* What a call changes, until all of it is known to be good. */
struct parameters {
    struct precopy_options options;
    struct channel_options link;
    bool dirty_log_chosen;
    enum dirty_log_backend dirty_log;
    enum binding_zero_pages zero_pages;
};

/* Whole numbers. False where there is no such parameter, or not with this value. */
static bool set_number(struct parameters *parameters, const char *key, uint64_t number)
{
    struct precopy_options *options = &parameters->options;
    struct channel_options *link = &parameters->link;

    if (strcmp(key, "x-deadline-ms") == 0) {
        link->deadline_ns = number * CLOCK_NS_PER_MS;
        return number <= MAX_MS &&
               link_times_check(link->deadline_ns, link->keepalive_ns, NULL) == 0;
    }
    if (strcmp(key, "x-keepalive-ms") == 0) {
        link->keepalive_ns = number * CLOCK_NS_PER_MS;
        return number <= MAX_MS &&
               link_times_check(link->deadline_ns, link->keepalive_ns, NULL) == 0;
    }
    if (strcmp(key, "max-bandwidth") == 0) {
        options->max_bandwidth = number;
        return number == 0 || number >= PRECOPY_MIN_BANDWIDTH;
    }
    if (strcmp(key, "downtime-limit") == 0) {
        options->downtime_limit_ns = number * CLOCK_NS_PER_MS;
        return number <= MAX_DOWNTIME_LIMIT_MS;
    }
    if (strcmp(key, "x-downtime-limit-ns") == 0) {
        options->downtime_limit_ns = number;
        return true;
    }
    if (strcmp(key, "x-chunk-pages") == 0) {
        options->chunk_pages = (uint32_t)number;
        return number % 64 == 0 && number && number <= PRECOPY_MAX_CHUNK_PAGES;
    }
    if (strcmp(key, "x-timeout-ms") == 0) {
        options->timeout_ns = number * CLOCK_NS_PER_MS;
        return number <= MAX_TIMEOUT_MS;
    }
    if (strcmp(key, "multifd-channels") == 0) {
        options->streams = (unsigned)number;
        return number >= 1 && number <= WIRE_MAX_STREAMS;
    }
    if (strcmp(key, "multifd-zstd-level") == 0) {
        options->compress_level = (int)number;
        return number >= 1 && number <= PRECOPY_ZSTD_MAX_LEVEL;
    }
    return false;
}

/* A word and what it stands for. */
struct choice {
    const char *name;
    int value;
};

static const struct choice compressions[] = {
    {"none", WIRE_CODEC_NONE}, {"zstd", WIRE_CODEC_ZSTD}, {"lz4", WIRE_CODEC_LZ4}, {NULL, 0}};
static const struct choice zerocopies[] = {{"off", CHANNEL_ZEROCOPY_OFF},
                                           {"on", CHANNEL_ZEROCOPY_ON},
                                           {"auto", CHANNEL_ZEROCOPY_AUTO},
                                           {NULL, 0}};

static const struct choice on_timeouts[] = {
    {"cancel", CONVERGE_ON_TIMEOUT_CANCEL}, {"switch", CONVERGE_ON_TIMEOUT_SWITCH}, {NULL, 0}};
static const struct choice zero_pages[] = {
    {"first", BINDING_ZERO_FIRST}, {"all", BINDING_ZERO_ALL}, {"off", BINDING_ZERO_OFF}, {NULL, 0}};

static int choose(const struct choice *choices, const char *key, const json_t *value, int *chosen,
                  struct error *err)
{
    const char *name = json_string_value(value);
    char all[64] = "";

    for (const struct choice *choice = choices; choice->name; choice++) {
        size_t length = strlen(all);

        if (name && strcmp(name, choice->name) == 0) {
            *chosen = choice->value;
            return 0;
        }
        (void)snprintf(all + length, sizeof(all) - length, "%s%s", length ? ", " : "",
                       choice->name);
    }
    return error_set(err, EINVAL, "%s cannot be '%.64s': it must be one of %s", key,
                     name ? name : "", all);
}

static const char *choice_name(const struct choice *choices, int value)
{
    while (choices->name && choices->value != value)
        choices++;
    return choices->name ? choices->name : "unknown";
}

static int set_dirty_log(struct parameters *parameters, const json_t *value, struct error *err)
{
    const char *name = json_string_value(value);

    parameters->dirty_log_chosen = name && strcmp(name, "auto") != 0;
    if (!name || (parameters->dirty_log_chosen &&
                  dirty_log_backend_parse(name, &parameters->dirty_log, NULL)))
        return error_set(err, EINVAL,
                         "'%.64s' is no dirty log: it must be auto, get, clear or ring",
                         name ? name : "");
    return 0;
}

static int set(struct parameters *parameters, const char *key, const json_t *value,
               struct error *err)
{
    json_int_t number = json_integer_value(value);

    int chosen = 0;
    int rc;

    if (strcmp(key, "x-dirty-log") == 0)
        return set_dirty_log(parameters, value, err);
    if (strcmp(key, "multifd-compression") == 0) {
        rc = choose(compressions, key, value, &chosen, err);
        parameters->options.compress = (enum wire_codec)chosen;
        return rc;
    }
    if (strcmp(key, "x-zero-pages") == 0) {
        rc = choose(zero_pages, key, value, &chosen, err);
        parameters->zero_pages = (enum binding_zero_pages)chosen;
        return rc;
    }
    if (strcmp(key, "x-on-timeout") == 0) {
        rc = choose(on_timeouts, key, value, &chosen, err);
        parameters->options.on_timeout = (enum converge_on_timeout)chosen;
        return rc;
    }
    if (strcmp(key, "x-throttle") == 0)
        return converge_throttle_parse(json_string_value(value) ? json_string_value(value)
                                                                : "nothing",
                                       &parameters->options.throttle, err);
    if (strcmp(key, "x-zero-copy") == 0) {
        rc = choose(zerocopies, key, value, &chosen, err);
        parameters->options.zerocopy = (enum channel_zerocopy)chosen;
        return rc;
    }
    if (!json_is_integer(value) || number < 0)
        return error_set(err, EINVAL, "%.100s must be a whole number, 0 or more", key);
    if (!set_number(parameters, key, (uint64_t)number))
        return error_set(err, EINVAL,
                         "unknown parameter or value out of range: %.100s (there are %s)", key,
                         accepted);
    return 0;
}

json_t *qmp_migrate_set_parameters(struct server *server, json_t *arguments, struct error *err)
{
    struct migration *migration = &server->migration;
    struct parameters parameters = {.options = migration->options,
                                    .link = migration->link,
                                    .dirty_log_chosen = migration->dirty_log_chosen,
                                    .dirty_log = migration->dirty_log,
                                    .zero_pages = migration->zero_pages};
    const char *key;
    json_t *value;

    json_object_foreach(arguments, key, value)
    {
        if (set(&parameters, key, value, err))
            return NULL;
    }
    migration->options = parameters.options;
    migration->link = parameters.link;
    migration->dirty_log_chosen = parameters.dirty_log_chosen;
    migration->dirty_log = parameters.dirty_log;
    migration->zero_pages = parameters.zero_pages;
    return json_object();
}

json_t *qmp_query_migrate_parameters(struct server *server, json_t *arguments, struct error *err)
{
    const struct migration *migration = &server->migration;
    const struct precopy_options *options = &migration->options;

    char throttle[8];

    (void)arguments;
    (void)err;
    (void)snprintf(throttle, sizeof(throttle), "%u", options->throttle);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:s, s:I, s:s, s:s, s:I, s:s, s:s}",
                     "downtime-limit", (json_int_t)(options->downtime_limit_ns / CLOCK_NS_PER_MS),
                     "x-downtime-limit-ns", (json_int_t)options->downtime_limit_ns, "max-bandwidth",
                     (json_int_t)options->max_bandwidth, "x-chunk-pages",
                     (json_int_t)options->chunk_pages, "x-deadline-ms",
                     (json_int_t)(migration->link.deadline_ns / CLOCK_NS_PER_MS), "x-keepalive-ms",
                     (json_int_t)(migration->link.keepalive_ns / CLOCK_NS_PER_MS), "x-dirty-log",
                     migration->dirty_log_chosen ? dirty_log_backend_name(migration->dirty_log)
                                                 : "auto",
                     "multifd-channels", (json_int_t)options->streams, "multifd-compression",
                     choice_name(compressions, (int)options->compress), "multifd-zstd-level",
                     (json_int_t)options->compress_level, "x-zero-copy",
                     choice_name(zerocopies, (int)options->zerocopy), "x-zero-pages",
                     choice_name(zero_pages, (int)migration->zero_pages), "x-timeout-ms",
                     (json_int_t)(options->timeout_ns / CLOCK_NS_PER_MS), "x-on-timeout",
                     choice_name(on_timeouts, (int)options->on_timeout), "x-throttle",
                     options->throttle == CONVERGE_THROTTLE_AUTO ? "auto" : throttle);
}
