/* SPDX-License-Identifier: MIT
 *
 * pageferry migrate: asks a running pageferry, through its control socket, to move its guest, and
 * shows how it goes. The migration itself happens in that process: this one may die without harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate/precopy.h"
#include "tools/commands.h"
#include "tools/link_times.h"
#include "tools/migrate_display.h"
#include "tools/options.h"
#include "tools/qmp_client.h"
#include "tools/server.h"
#include "tools/uri.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

#define POLL_MS      50
#define GIVEN_FD     "pageferry-migrate"
#define MAX_LIMIT_NS (2000ull * 1000 * 1000 * 1000)

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

struct migrate_command {
    struct qmp_client client;
    struct migrate_display display;
    const char *control, *uri, *dirty_log, *record, *compress, *zerocopy, *zero_pages, *on_timeout,
        *throttle;
    uint64_t downtime_limit_ns, max_bandwidth, chunk_pages, streams, deadline_ns, keepalive_ns,
        timeout_ns;
    bool check, stop, json;
    bool ended;    /* the final event came */
    json_t *final; /* what it carried */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void on_event(void *opaque, json_t *event)
{
    struct migrate_command *command = opaque;
    json_t *details = json_object_get(json_object_get(event, "data"), "x-query-migrate");

    if (details) {
        command->ended = true;
        json_decref(command->final);
        command->final = json_incref(details);
    }
}

/* What ended before ours began is none of our business. */
static void forget_earlier_end(struct migrate_command *command)
{
    command->ended = false;
    json_decref(command->final);
    command->final = NULL;
}

/* Passes a descriptor of ours to the source and names it there. */
static int pass_fd(struct migrate_command *command, const char *text, char *uri, size_t uri_bytes,
                   struct error *err)
{
    uint64_t fd;

    if (size_parse_number(text, INT32_MAX, &fd, err))
        return -EINVAL;
    if (fcntl((int)fd, F_GETFD) < 0)
        return error_set(err, EINVAL, "fd:%d is not open in this process", (int)fd);
    (void)snprintf(uri, uri_bytes, "fd:%s", GIVEN_FD);
    return qmp_client_command(&command->client, "getfd", json_pack("{s:s}", "fdname", GIVEN_FD),
                              (int)fd, NULL, err);
}

/* The name of a file by which the source, whose directory is another, finds it too. */
static int add_path(const char *path, const char *prefix, const char *key, json_t *arguments,
                    struct error *err)
{
    char *directory = *path == '/' ? NULL : getcwd(NULL, 0);
    json_t *name;

    if (*path != '/' && !directory)
        return error_set(err, errno, "the current directory: %s", strerror(errno));
    name = directory ? json_sprintf("%s%s/%s", prefix, directory, path)
                     : json_sprintf("%s%s", prefix, path);
    free(directory);
    if (!name)
        return error_set(err, EINVAL, "the file's name '%.200s' is not UTF-8", path);
    return json_object_set_new(arguments, key, name)
               ? error_set(err, ENOMEM, "no memory for the order to migrate")
               : 0;
}

/* Tells the source to migrate. */
static int order(struct migrate_command *command, const char *uri, struct error *err)
{
    json_t *arguments = json_pack("{s:s, s:b, s:b}", "uri", uri, "x-check", command->check,
                                  "x-stop", command->stop);
    int rc = 0;

    if (!arguments)
        return error_set(err, EINVAL, "the address is not UTF-8");
    if (strncmp(uri, "file:", 5) == 0)
        rc = add_path(uri + 5, "file:", "uri", arguments, err);
    if (!rc && command->record)
        rc = add_path(command->record, "", "x-record-dirty", arguments, err);
    if (rc) {
        json_decref(arguments);
        return rc;
    }
    return qmp_client_command(&command->client, "migrate", arguments, -1, NULL, err);
}

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

static int set_parameters(struct migrate_command *command, struct error *err)
{
    json_t *parameters = json_object();
    int rc = add_compression(command->compress, parameters, err);

    if (rc) {
        json_decref(parameters);
        return rc;
    }
    add_number(parameters, "x-downtime-limit-ns", command->downtime_limit_ns);
    add_number(parameters, "max-bandwidth", command->max_bandwidth);
    add_number(parameters, "x-chunk-pages", command->chunk_pages);
    add_number(parameters, "multifd-channels", command->streams);
    add_number(parameters, "x-deadline-ms", command->deadline_ns / CLOCK_NS_PER_MS);
    add_number(parameters, "x-keepalive-ms", command->keepalive_ns / CLOCK_NS_PER_MS);
    add_number(parameters, "x-timeout-ms", command->timeout_ns / CLOCK_NS_PER_MS);
    add_word(parameters, "x-on-timeout", command->on_timeout);
    add_word(parameters, "x-throttle", command->throttle);
    add_word(parameters, "x-dirty-log", command->dirty_log);
    add_word(parameters, "x-zero-copy", command->zerocopy);
    add_word(parameters, "x-zero-pages", command->zero_pages);
    return qmp_client_command(&command->client, "migrate-set-parameters", parameters, -1, NULL,
                              err);
}

static int begin(struct migrate_command *command, struct error *err)
{
    char uri[URI_MAX_BYTES];
    struct uri parsed;
    int rc = uri_parse(command->uri, &parsed, err);

    if (rc)
        return rc;
    rc = qmp_client_open(&command->client, command->control, err);
    if (rc)
        return rc;
    command->client.on_event = on_event;
    command->client.opaque = command;
    (void)snprintf(uri, sizeof(uri), "%s", command->uri);
    if (parsed.kind == URI_FD)
        rc = pass_fd(command, parsed.rest, uri, sizeof(uri), err);
    if (rc)
        return rc;
    rc = set_parameters(command, err);
    if (rc)
        return rc;
    rc = order(command, uri, err);
    if (!rc)
        forget_earlier_end(command);
    return rc;
}

/* Follows the migration to its end. */
static int follow(struct migrate_command *command, struct error *err)
{
    bool asked = false;
    int rc = 0;

    while (!rc && !command->ended) {
        json_t *reply = NULL;

        if (interrupted && !asked) {
            asked = true;
            rc = qmp_client_command(&command->client, "migrate_cancel", NULL, -1, NULL, err);
        }
        if (!rc)
            rc = qmp_client_wait(&command->client, POLL_MS, err);
        if (rc || command->ended)
            break;
        rc = qmp_client_command(&command->client, "query-migrate", NULL, -1, &reply, err);
        if (!rc)
            migrate_display_update(&command->display, reply);
        json_decref(reply);
    }
    if (rc == -ECONNRESET) {
        struct error late;

        /* The source is gone, but its last word may still have to be read. */
        while (!command->ended && qmp_client_wait(&command->client, 0, &late) == 0) {
        }
    }
    return command->ended ? 0 : rc;
}

static void watch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: waits end early */

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* The outcome as an exit status, with the line that goes with it. */
static int conclude(const struct migrate_command *command)
{
    const json_t *own = json_object_get(command->final, "x-pageferry");
    const char *outcome = json_string_value(json_object_get(own, "outcome"));
    const char *reason = json_string_value(json_object_get(command->final, "error-desc"));
    const char *guest = json_string_value(json_object_get(own, "guest"));

    if (!guest)
        guest = "unknown";
    if (!outcome)
        outcome = "failed";
    if (!reason)
        reason = "";
    if (strcmp(outcome, "completed") == 0)
        return 0;
    if (strcmp(outcome, "accepted") == 0) {
        if (!command->json)
            printf("accepted: the destination would take the guest\n");
        return 0;
    }
    if (strcmp(outcome, "in-doubt") == 0) {
        log_error(
            "in doubt: the guest stays paused here and may run at the destination (%s); settle it "
            "with: pageferry ctl --control %s resolve owner=source|destination",
            reason, command->control);
        return SERVER_EXIT_IN_DOUBT;
    }
    if (strcmp(outcome, "cancelled") == 0 && strcmp(guest, "shutdown") == 0)
        log_error("cancelled: the source was told to end, and its guest ended with it");
    else if (strcmp(outcome, "cancelled") == 0)
        log_error("cancelled; the guest goes on at the source");
    else if (command->check)
        log_error("refused %s", reason);
    else
        log_error("the migration failed %s; the guest here: %s", reason, guest);
    return SERVER_EXIT_FAILURE;
}

static int migrate(struct migrate_command *command)
{
    struct error err = {.text = ""};
    int rc;

    watch_interrupts();
    migrate_display_init(&command->display, command->json);
    rc = begin(command, &err);
    if (!rc)
        rc = follow(command, &err);
    if (rc) {
        if (command->json) {
            json_t *reply = json_pack("{s:{s:s}, s:s}", "x-pageferry", "outcome", "failed",
                                      "error-desc", err.text);

            migrate_display_end(&command->display, reply, true);
            json_decref(reply);
        }
        log_error("%s", err.text);
        rc = rc == -EINVAL ? SERVER_EXIT_USAGE : SERVER_EXIT_FAILURE;
    } else {
        migrate_display_end(&command->display, command->final, command->json);
        rc = conclude(command);
    }
    json_decref(command->final);
    qmp_client_close(&command->client);
    return rc;
}

/* Values that are no value of their option; each is told. */
static bool options_fit(const struct migrate_command *command)
{
    struct error err = {.text = ""};

    if (link_times_check(command->deadline_ns, command->keepalive_ns, &err)) {
        log_error("%s", err.text);
        return false;
    }
    if (command->downtime_limit_ns > MAX_LIMIT_NS || command->max_bandwidth > INT64_MAX ||
        (command->max_bandwidth && command->max_bandwidth < PRECOPY_MIN_BANDWIDTH)) {
        log_error(
            "--downtime-limit: at most 2000s; --max-bandwidth: 64K to 2^63 bytes a second, or "
            "0 for no limit");
        return false;
    }
    if (command->chunk_pages % 64 || !command->chunk_pages ||
        command->chunk_pages > PRECOPY_MAX_CHUNK_PAGES) {
        log_error("--chunk: a multiple of 64 pages, up to 1M");
        return false;
    }
    if (command->streams < 1 || command->streams > WIRE_MAX_STREAMS) {
        log_error("--streams: 1 to %d", WIRE_MAX_STREAMS);
        return false;
    }
    if (command->record && (!*command->record || command->check)) {
        log_error("--record-dirty needs a file's name, and a migration: --check has no rounds");
        return false;
    }
    return true;
}

int cmd_migrate(int argc, char **argv)
{
    struct migrate_command command = {.client.fd = -1,
                                      .downtime_limit_ns = PRECOPY_DOWNTIME_LIMIT_NS,
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
    const struct option_rule rules[] = {
        {"control", 0, OPTION_STRING, &command.control, 0},
        {"check", 0, OPTION_FLAG, &command.check, 0},
        {"downtime-limit", 0, OPTION_DURATION, &command.downtime_limit_ns, 0},
        {"timeout", 0, OPTION_DURATION, &command.timeout_ns, 0},
        {"on-timeout", 0, OPTION_STRING, &command.on_timeout, 0},
        {"throttle", 0, OPTION_STRING, &command.throttle, 0},
        {"max-bandwidth", 0, OPTION_SIZE, &command.max_bandwidth, 0},
        {"dirty-log", 0, OPTION_STRING, &command.dirty_log, 0},
        {"chunk", 0, OPTION_SIZE, &command.chunk_pages, 0},
        {"streams", 0, OPTION_NUMBER, &command.streams, UINT32_MAX},
        {"compress", 0, OPTION_STRING, &command.compress, 0},
        {"zero-copy", 0, OPTION_STRING, &command.zerocopy, 0},
        {"zero-pages", 0, OPTION_STRING, &command.zero_pages, 0},
        {"record-dirty", 0, OPTION_STRING, &command.record, 0},
        {"deadline", 0, OPTION_DURATION, &command.deadline_ns, 0},
        {"keepalive", 0, OPTION_DURATION, &command.keepalive_ns, 0},
        {"stop", 0, OPTION_FLAG, &command.stop, 0},
        {"json", 0, OPTION_FLAG, &command.json, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0}};
    char **operands;
    int noperands;
    enum options_result result;

    result = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (result != OPTIONS_GO)
        return (int)result;
    if (!command.control || noperands != 1) {
        log_error("write pageferry migrate --control PATH ADDRESS: see --help");
        return SERVER_EXIT_USAGE;
    }
    if (!options_fit(&command))
        return SERVER_EXIT_USAGE;
    command.uri = operands[0];
    return migrate(&command);
}
