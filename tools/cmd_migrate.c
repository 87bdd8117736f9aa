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

#include "tools/commands.h"
#include "tools/migrate_display.h"
#include "tools/migrate_options.h"
#include "tools/qmp_client.h"
#include "tools/server.h"
#include "tools/uri.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

#define POLL_MS  50
#define GIVEN_FD "pageferry-migrate"

struct migrate_command {
    struct qmp_client client;
    struct migrate_display display;
    struct migrate_options options;
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
    json_t *arguments = json_pack("{s:s, s:b, s:b}", "uri", uri, "x-check", command->options.check,
                                  "x-stop", command->options.stop);
    int rc = 0;

    if (!arguments)
        return error_set(err, EINVAL, "the address is not UTF-8");
    if (strncmp(uri, "file:", 5) == 0)
        rc = add_path(uri + 5, "file:", "uri", arguments, err);
    if (!rc && command->options.record)
        rc = add_path(command->options.record, "", "x-record-dirty", arguments, err);
    if (rc) {
        json_decref(arguments);
        return rc;
    }
    return qmp_client_command(&command->client, "migrate", arguments, -1, NULL, err);
}

static int begin(struct migrate_command *command, struct error *err)
{
    char uri[URI_MAX_BYTES];
    struct uri parsed;
    int rc = uri_parse(command->options.uri, &parsed, err);

    if (rc)
        return rc;
    rc = qmp_client_open(&command->client, command->options.control, err);
    if (rc)
        return rc;
    command->client.on_event = on_event;
    command->client.opaque = command;
    (void)snprintf(uri, sizeof(uri), "%s", command->options.uri);
    if (parsed.kind == URI_FD)
        rc = pass_fd(command, parsed.rest, uri, sizeof(uri), err);
    if (rc)
        return rc;
    rc = qmp_client_command(&command->client, "migrate-set-parameters",
                            migrate_options_parameters(&command->options), -1, NULL, err);
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
        if (!command->options.json)
            printf("accepted: the destination would take the guest\n");
        return 0;
    }
    if (strcmp(outcome, "in-doubt") == 0) {
        log_error(
            "in doubt: the guest stays paused here and may run at the destination (%s); settle it "
            "with: pageferry ctl --control %s resolve owner=source|destination",
            reason, command->options.control);
        return SERVER_EXIT_IN_DOUBT;
    }
    if (strcmp(outcome, "cancelled") == 0 && strcmp(guest, "shutdown") == 0)
        log_error("cancelled: the source was told to end, and its guest ended with it");
    else if (strcmp(outcome, "cancelled") == 0)
        log_error("cancelled; the guest goes on at the source");
    else if (command->options.check)
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
    migrate_display_init(&command->display, command->options.json);
    rc = begin(command, &err);
    if (!rc)
        rc = follow(command, &err);
    if (rc) {
        if (command->options.json) {
            json_t *reply = json_pack("{s:{s:s}, s:s}", "x-pageferry", "outcome", "failed",
                                      "error-desc", err.text);

            migrate_display_end(&command->display, reply, true);
            json_decref(reply);
        }
        log_error("%s", err.text);
        rc = rc == -EINVAL ? SERVER_EXIT_USAGE : SERVER_EXIT_FAILURE;
    } else {
        migrate_display_end(&command->display, command->final, command->options.json);
        rc = conclude(command);
    }
    json_decref(command->final);
    qmp_client_close(&command->client);
    return rc;
}

int cmd_migrate(int argc, char **argv)
{
    struct migrate_command command = {.client.fd = -1};
    enum options_result result = migrate_options_parse(argc, argv, &command.options);

    return result == OPTIONS_GO ? migrate(&command) : (int)result;
}
