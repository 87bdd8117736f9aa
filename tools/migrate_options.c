/* SPDX-License-Identifier: MIT */
#include "tools/migrate_options.h"

#include <errno.h>
#include <string.h>

#include "migrate/precopy.h"
#include "tools/link_times.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

#define MAX_LIMIT_NS   (2000 * CLOCK_NS_PER_SEC)
#define MAX_TIMEOUT_NS (86400ull * 365 * CLOCK_NS_PER_SEC)

static const char help[] =
    "usage: pageferry migrate --control PATH [OPTION…] ADDRESS\n\n"
    "Moves the guest of a running pageferry to ADDRESS: tcp:HOST:PORT, unix:PATH,\n"
    "exec:COMMAND or fd:N; or saves it to file:PATH.\n"
    "      --control PATH       control socket of the source\n"
    "      --check              only ask whether the destination would take the guest\n"
    "      --downtime-limit T   switch over once the pause gets so short (50ms)\n"
    "      --timeout T          how long the guest may be copied (0: for ever)\n"
    "      --on-timeout WHAT    cancel (default), or switch whatever the downtime\n"
    "      --throttle P         slow the guest: auto, or 0 (default) to 99 percent\n"
    "      --max-bandwidth R    bytes a second, e.g. 100M (default 0: no limit)\n"
    "      --streams N          connections in parallel, 1 to 16 (default 1)\n"
    "      --compress KIND      zstd[:LEVEL], lz4 or none (default)\n"
    "      --zero-copy WHEN     on, off, or auto (default): until the kernel copies\n"
    "      --zero-pages WHEN    look for them in the first round (default), all, off\n"
    "      --dirty-log KIND     get, clear or ring (default auto: the best one)\n"
    "      --chunk PAGES        pages claimed, and re-protected, at a time (16K)\n"
    "      --record-dirty FILE  the source writes each round's dirty bitmaps to FILE\n"
    "      --deadline T         give up when nothing moves so long (10s)\n"
    "      --keepalive T        silence before TCP probes (5s)\n"
    "      --stop               after file:PATH the guest stays paused\n"
    "      --json               one JSON object; keys in pageferry-migrate(1)\n"
    "Ctrl-C cancels; the guest goes on. Exit status: 0 completed, accepted, 1 failed\n"
    "or cancelled, 2 bad usage, 3 in doubt: see pageferry-ctl(1), resolve.\n";

/* "zstd:3" is two parameters. */
static int add_compression(const char *text, json_t *parameters, struct error *err)
{
    const char *level_text = strchr(text, ':');
    size_t length = level_text ? (size_t)(level_text - text) : strlen(text);
    uint64_t level = PRECOPY_ZSTD_LEVEL;

    if (level_text && (length != strlen("zstd") || strncmp(text, "zstd", length) != 0))
        return error_set(err, EINVAL, "--compress %.60s: only zstd has levels", text);
    if (level_text &&
        (size_parse_number(level_text + 1, PRECOPY_ZSTD_MAX_LEVEL, &level, err) || level == 0))
        return error_set(err, EINVAL, "--compress %.60s: zstd has levels 1 to %d", text,
                         PRECOPY_ZSTD_MAX_LEVEL);
    if (!(length == 4 && strncmp(text, "zstd", length) == 0) && strcmp(text, "lz4") != 0 &&
        strcmp(text, "none") != 0)
        return error_set(err, EINVAL, "--compress: '%.60s' is none of: zstd[:LEVEL] lz4 none",
                         text);
    (void)json_object_set_new(parameters, "multifd-compression", json_stringn(text, length));
    (void)json_object_set_new(parameters, "multifd-zstd-level", json_integer((json_int_t)level));
    return 0;
}

static void add_number(json_t *parameters, const char *name, uint64_t number)
{
    (void)json_object_set_new(parameters, name, json_integer((json_int_t)number));
}

/* A word that is not UTF-8 becomes none, which the source refuses by the parameter's name. */
static void add_word(json_t *parameters, const char *name, const char *word)
{
    json_t *value = json_string(word);

    (void)json_object_set_new(parameters, name, value ? value : json_null());
}

/* Rounded up: the shortest timeout is not none. */
static uint64_t whole_ms(uint64_t ns)
{
    return ns / CLOCK_NS_PER_MS + (ns % CLOCK_NS_PER_MS != 0);
}

json_t *migrate_options_parameters(const struct migrate_options *options)
{
    json_t *parameters = json_object();

    (void)add_compression(options->compress, parameters, NULL); /* known to be good */
    add_number(parameters, "x-downtime-limit-ns", options->downtime_limit_ns);
    add_number(parameters, "max-bandwidth", options->max_bandwidth);
    add_number(parameters, "x-chunk-pages", options->chunk_pages);
    add_number(parameters, "multifd-channels", options->streams);
    add_number(parameters, "x-deadline-ms", options->deadline_ns / CLOCK_NS_PER_MS);
    add_number(parameters, "x-keepalive-ms", options->keepalive_ns / CLOCK_NS_PER_MS);
    add_number(parameters, "x-timeout-ms", whole_ms(options->timeout_ns));
    add_word(parameters, "x-on-timeout", options->on_timeout);
    add_word(parameters, "x-throttle", options->throttle);
    add_word(parameters, "x-dirty-log", options->dirty_log);
    add_word(parameters, "x-zero-copy", options->zerocopy);
    add_word(parameters, "x-zero-pages", options->zero_pages);
    return parameters;
}

/* One of the words of `allowed`, which are separated by spaces. */
static bool word_fits(const char *option, const char *word, const char *allowed)
{
    size_t length = strlen(word);

    for (const char *at = allowed; length && (at = strstr(at, word)); at += length) {
        if ((at == allowed || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    }
    log_error("--%s: '%.60s' is none of: %s", option, word, allowed);
    return false;
}

static bool words_fit(const struct migrate_options *options)
{
    struct error err = {.text = ""};
    json_t *scratch = json_object();
    unsigned throttle;
    int rc = converge_throttle_parse(options->throttle, &throttle, &err);

    if (!rc)
        rc = add_compression(options->compress, scratch, &err);
    json_decref(scratch);
    if (rc) {
        log_error("%s", err.text);
        return false;
    }
    return word_fits("on-timeout", options->on_timeout, "cancel switch") &&
           word_fits("zero-copy", options->zerocopy, "on off auto") &&
           word_fits("zero-pages", options->zero_pages, "first all off");
}

/* Values that are no value of their option; each is told. */
static bool options_fit(const struct migrate_options *options)
{
    struct error err = {.text = ""};

    if (link_times_check(options->deadline_ns, options->keepalive_ns, &err)) {
        log_error("%s", err.text);
        return false;
    }
    if (options->downtime_limit_ns > MAX_LIMIT_NS || options->max_bandwidth > INT64_MAX ||
        (options->max_bandwidth && options->max_bandwidth < PRECOPY_MIN_BANDWIDTH)) {
        log_error(
            "--downtime-limit: at most 2000s; --max-bandwidth: 64K to 2^63 bytes a second, or "
            "0 for no limit");
        return false;
    }
    if (options->timeout_ns > MAX_TIMEOUT_NS) {
        log_error("--timeout: at most 31536000s, a year");
        return false;
    }
    if (options->chunk_pages % 64 || !options->chunk_pages ||
        options->chunk_pages > PRECOPY_MAX_CHUNK_PAGES) {
        log_error("--chunk: a multiple of 64 pages, up to 1M");
        return false;
    }
    if (!words_fit(options))
        return false;
    if (options->streams < 1 || options->streams > WIRE_MAX_STREAMS) {
        log_error("--streams: 1 to %d", WIRE_MAX_STREAMS);
        return false;
    }
    if (options->record && (!*options->record || options->check)) {
        log_error("--record-dirty needs a file's name, and a migration: --check has no rounds");
        return false;
    }
    return true;
}

enum options_result migrate_options_parse(int argc, char **argv, struct migrate_options *options)
{
    const struct option_rule rules[] = {
        {"control", 0, OPTION_STRING, &options->control, 0},
        {"check", 0, OPTION_FLAG, &options->check, 0},
        {"downtime-limit", 0, OPTION_DURATION, &options->downtime_limit_ns, 0},
        {"timeout", 0, OPTION_DURATION, &options->timeout_ns, 0},
        {"on-timeout", 0, OPTION_STRING, &options->on_timeout, 0},
        {"throttle", 0, OPTION_STRING, &options->throttle, 0},
        {"max-bandwidth", 0, OPTION_SIZE, &options->max_bandwidth, 0},
        {"dirty-log", 0, OPTION_STRING, &options->dirty_log, 0},
        {"chunk", 0, OPTION_SIZE, &options->chunk_pages, 0},
        {"streams", 0, OPTION_NUMBER, &options->streams, UINT32_MAX},
        {"compress", 0, OPTION_STRING, &options->compress, 0},
        {"zero-copy", 0, OPTION_STRING, &options->zerocopy, 0},
        {"zero-pages", 0, OPTION_STRING, &options->zero_pages, 0},
        {"record-dirty", 0, OPTION_STRING, &options->record, 0},
        {"deadline", 0, OPTION_DURATION, &options->deadline_ns, 0},
        {"keepalive", 0, OPTION_DURATION, &options->keepalive_ns, 0},
        {"stop", 0, OPTION_FLAG, &options->stop, 0},
        {"json", 0, OPTION_FLAG, &options->json, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0}};
    char **operands;
    int noperands;
    enum options_result result;

    *options = (struct migrate_options){.downtime_limit_ns = PRECOPY_DOWNTIME_LIMIT_NS,
                                        .dirty_log = "auto",
                                        .on_timeout = "cancel",
                                        .throttle = "0",
                                        .streams = 1,
                                        .compress = "none",
                                        .zerocopy = "auto",
                                        .zero_pages = "first",
                                        .chunk_pages = PRECOPY_CHUNK_PAGES,
                                        .deadline_ns = MIGRATE_DEADLINE_NS,
                                        .keepalive_ns = MIGRATE_KEEPALIVE_NS};
    result = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (result != OPTIONS_GO)
        return result;
    if (!options->control || noperands != 1) {
        log_error("write pageferry migrate --control PATH ADDRESS: see --help");
        return OPTIONS_BAD;
    }
    if (!options_fit(options))
        return OPTIONS_BAD;
    options->uri = operands[0];
    return OPTIONS_GO;
}
