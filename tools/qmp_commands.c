/* SPDX-License-Identifier: MIT
 *
 * The command table of the control socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/qmp_migrate.h"
#include "tools/qmp_parameters.h"
#include "tools/qmp_trace.h"
#include "tools/server.h"

#define REGISTERS_BYTES 4096

struct command {
    const char *name;
    const char *arguments; /* their names, with blanks between; NULL: it looks at them itself */
    json_t *(*execute)(struct server *server, json_t *arguments, struct error *err);
};

static const struct command *command_table(size_t *count);

static json_t *query_status(struct server *server, json_t *arguments, struct error *err)
{
    const char *state = server_run_state(server);

    (void)arguments;
    (void)err;
    return json_pack("{s:b, s:s}", "running", strcmp(state, "running") == 0, "status", state);
}

static json_t *stop(struct server *server, json_t *arguments, struct error *err)
{
    bool was_running = strcmp(server_run_state(server), "running") == 0;

    (void)arguments;
    if (vm_host_stop(&server->host, err))
        return NULL;
    if (was_running)
        control_event(&server->control, "STOP", NULL);
    return json_object();
}

static json_t *cont(struct server *server, json_t *arguments, struct error *err)
{
    bool was_running = strcmp(server_run_state(server), "running") == 0;

    (void)arguments;
    if (vm_host_cont(&server->host, err))
        return NULL;
    if (!was_running)
        control_event(&server->control, "RESUME", NULL);
    return json_object();
}

static json_t *quit(struct server *server, json_t *arguments, struct error *err)
{
    (void)arguments;
    (void)err;
    server_quit(server);
    return json_object();
}

static json_t *query_version(struct server *server, json_t *arguments, struct error *err)
{
    (void)server;
    (void)arguments;
    (void)err;
    return control_version();
}

static json_t *query_commands(struct server *server, json_t *arguments, struct error *err)
{
    json_t *list = json_array();
    size_t count;
    const struct command *table = command_table(&count);

    (void)server;
    (void)arguments;
    (void)err;
    (void)json_array_append_new(list, json_pack("{s:s}", "name", "qmp_capabilities"));
    (void)json_array_append_new(list, json_pack("{s:s}", "name", "getfd"));
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_pack("{s:s}", "name", table[i].name));
    return list;
}

static json_t *closefd(struct server *server, json_t *arguments, struct error *err)
{
    const char *name = json_string_value(json_object_get(arguments, "fdname"));
    int fd = name ? control_take_fd(&server->control, name) : -1;

    if (fd < 0) {
        (void)error_set(err, ENOENT, "no descriptor of that \"fdname\"");
        return NULL;
    }
    (void)close(fd);
    return json_object();
}

/* Registers exist for a guest that stands still: a running one is stopped for the moment of the
 * reading. */
static json_t *x_registers(struct server *server, json_t *arguments, struct error *err)
{
    json_t *cpu = json_object_get(arguments, "cpu");
    struct machine *machine = vm_host_machine(&server->host);
    char text[REGISTERS_BYTES];
    bool was_running;
    int rc;

    if (cpu && (!json_is_integer(cpu) || json_integer_value(cpu) < 0 ||
                json_integer_value(cpu) >= MACHINE_MAX_CPUS)) {
        (void)error_set(err, EINVAL, "\"cpu\" must be a whole number from 0 to %d",
                        MACHINE_MAX_CPUS - 1);
        return NULL;
    }
    if (!machine) {
        (void)error_set(err, EBUSY, "no guest has arrived yet");
        return NULL;
    }
    rc = vm_host_peek(&server->host, &was_running, err);
    if (rc)
        return NULL;
    rc = machine_registers(machine, (unsigned)json_integer_value(cpu), text, sizeof(text), err);
    if (vm_host_unpeek(&server->host, was_running, rc ? NULL : err) || rc)
        return NULL;
    return json_pack("{s:s}", "text", text);
}

static json_t *x_memory_map(struct server *server, json_t *arguments, struct error *err)
{
    struct machine *machine = vm_host_machine(&server->host);
    json_t *regions = json_array();
    const struct memory *memory;

    (void)arguments;
    if (!machine || machine_state(machine) == MACHINE_MOVED) {
        (void)error_set(err, EBUSY, "there is no guest memory here");
        json_decref(regions);
        return NULL;
    }
    memory = machine_memory(machine);
    for (unsigned i = 0; i < memory->nregions; i++) {
        const struct memory_region *region = &memory->region[i];
        uint64_t bytes = region->npages * MEMORY_PAGE_BYTES;

        (void)json_array_append_new(
            regions, json_pack("{s:I, s:I, s:I, s:i}", "gpa", (json_int_t)region->gpa, "bytes",
                               (json_int_t)bytes, "hva", (json_int_t)(uintptr_t)region->hva, "fd",
                               region->fd));
    }
    return json_pack("{s:i, s:s, s:o}", "pid", (int)getpid(), "backing",
                     memory_backing_name(memory->backing), "regions", regions);
}

static const struct command commands[] = {
    {"query-status", "", query_status},
    {"stop", "", stop},
    {"cont", "", cont},
    {"quit", "", quit},
    {"migrate", "uri detach x-check x-record-dirty x-stop", qmp_migrate},
    {"migrate_cancel", "", qmp_migrate_cancel},
    {"query-migrate", "", qmp_query_migrate},
    {"x-resolve", "owner force", qmp_resolve},
    {"migrate-set-parameters", NULL, qmp_migrate_set_parameters},
    {"query-migrate-parameters", "", qmp_query_migrate_parameters},
    {"query-version", "", query_version},
    {"query-commands", "", query_commands},
    {"closefd", "fdname", closefd},
    {"x-registers", "cpu", x_registers},
    {"x-memory-map", "", x_memory_map},
    {"x-trace-exits", "", qmp_trace_exits},
};

static const struct command *command_table(size_t *count)
{
    *count = sizeof(commands) / sizeof(commands[0]);
    return commands;
}

/* getfd is about the client that sent it, not about the guest. */
static json_t *getfd(struct server *server, struct control_client *client, json_t *arguments,
                     struct error *err)
{
    const char *name = json_string_value(json_object_get(arguments, "fdname"));

    if (!name) {
        (void)error_set(err, EINVAL, "getfd needs \"fdname\"");
        return NULL;
    }
    return control_keep_fd(&server->control, client, name, err) ? NULL : json_object();
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = words; length && (at = strstr(at, word)); at += length) {
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* A misspelt argument is refused: `migrate` without its x-check would be something else. */
static int check_arguments(const struct command *command, json_t *arguments, struct error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(arguments, key, value)
    {
        if (!has_word(command->arguments, key))
            return error_set(err, EINVAL, "%s takes no argument \"%.100s\"%s%s", command->name, key,
                             *command->arguments ? ": there is " : "", command->arguments);
    }
    return 0;
}

json_t *qmp_execute(void *opaque, struct control_client *client, const char *command,
                    json_t *arguments, struct error *err)
{
    struct server *server = opaque;

    if (strcmp(command, "getfd") == 0)
        return getfd(server, client, arguments, err);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, command) != 0)
            continue;
        if (commands[i].arguments && check_arguments(&commands[i], arguments, err))
            return NULL;
        return commands[i].execute(server, arguments, err);
    }
    (void)error_set(err, ENOENT, "there is no command %.100s: query-commands lists them", command);
    return NULL;
}
