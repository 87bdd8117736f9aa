/* SPDX-License-Identifier: MIT
 *
 * pageferry ctl: one command over the control socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/options.h"
#include "tools/qmp_client.h"
#include "tools/server.h"
#include "vmm/base/log.h"

static const char help[] =
    "usage: pageferry ctl --control PATH [--json] COMMAND [KEY=VALUE…]\n\n"
    "Sends a QMP command to the pageferry that listens on control socket PATH and\n"
    "prints the answer as JSON. A VALUE that is JSON (5, true, [1]) is sent as such,\n"
    "any other as a string.\n\n"
    "  status             is it running? (query-status)\n"
    "  stop, cont         pause and continue the guest\n"
    "  regs [cpu=N]       a vCPU's registers, as text (x-registers)\n"
    "  trace-exits        what vCPUs exit for, and what that takes (x-trace-exits)\n"
    "  quit               end the process, and with it the guest\n"
    "  query-migrate      how the last migration went\n"
    "  migrate_cancel     cancel the one that is under way\n"
    "  resolve owner=source|destination [force=true]\n"
    "                     settle a migration in doubt (x-resolve)\n"
    "  query-commands     all commands\n\n"
    "      --json             print JSON also where there is a text for people\n\n"
    "Exit status: 0, 1 where the command was refused, 2 for bad usage.\n";

struct alias {
    const char *name, *command;
};

static const struct alias aliases[] = {
    {"status", "query-status"},
    {"regs", "x-registers"},
    {"resolve", "x-resolve"},
    {"trace-exits", "x-trace-exits"},
};

static const char *resolve_alias(const char *name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strcmp(aliases[i].name, name) == 0)
            return aliases[i].command;
    }
    return name;
}

static int add_argument(json_t *arguments, const char *word, struct error *err)
{
    const char *equals = strchr(word, '=');
    char key[128];
    json_t *value;

    if (!equals || equals == word || (size_t)(equals - word) >= sizeof(key))
        return error_set(err, EINVAL, "'%s': write KEY=VALUE", word);
    (void)snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
    value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
    if (!value)
        value = json_string(equals + 1);
    if (!value)
        return error_set(err, EINVAL, "'%s': the value is no valid UTF-8", word);
    return json_object_set_new(arguments, key, value) ? -ENOMEM : 0;
}

/* A text for people goes before the figures that it was made from. */
static void print_value(const json_t *value, bool json)
{
    const char *text = json_string_value(json_object_get(value, "text"));
    char *dump;

    if (text && !json) {
        (void)fputs(text, stdout);
        return;
    }
    dump = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);
    puts(dump ? dump : "null");
    free(dump);
}

static int control(const char *path, char **words, int nwords, bool json)
{
    struct qmp_client client = {.fd = -1};
    struct error err = {.text = ""};
    json_t *arguments = json_object();
    json_t *value = NULL;
    int rc = 0;

    for (int i = 1; !rc && i < nwords; i++)
        rc = add_argument(arguments, words[i], &err);
    if (!rc)
        rc = qmp_client_open(&client, path, &err);
    if (!rc)
        rc = qmp_client_command(&client, resolve_alias(words[0]), json_incref(arguments), -1,
                                &value, &err);
    if (rc)
        log_error("%s", err.text);
    else
        print_value(value, json);
    json_decref(value);
    json_decref(arguments);
    qmp_client_close(&client);
    return rc == 0 ? 0 : rc == -EINVAL ? SERVER_EXIT_USAGE : SERVER_EXIT_FAILURE;
}

int cmd_ctl(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    const struct option_rule rules[] = {{"control", 0, OPTION_STRING, &path, 0},
                                        {"json", 0, OPTION_FLAG, &json, 0},
                                        {NULL, 0, OPTION_FLAG, NULL, 0}};
    char **operands;
    int noperands;
    enum options_result result;

    result = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (result != OPTIONS_GO)
        return (int)result;
    if (!path || noperands < 1) {
        log_error("write pageferry ctl --control PATH COMMAND: see --help");
        return SERVER_EXIT_USAGE;
    }
    return control(path, operands, noperands, json);
}
