/* SPDX-License-Identifier: MIT
 *
 * pageferry receive: waits for a guest, then serves it as `run` does. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tools/answering.h"
#include "tools/commands.h"
#include "tools/incoming.h"
#include "tools/json_text.h"
#include "tools/link_times.h"
#include "tools/machine_host_options.h"
#include "tools/options.h"
#include "tools/server.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"

static const char help[] =
    "usage: pageferry receive --listen ADDRESS | --stdio | --from file:PATH [OPTION…]\n\n"
    "Waits for a guest that `pageferry migrate` sends, or restores one from a\n"
    "snapshot, takes it over and serves it.\n"
    "Exit status: the guest's exit code; 1 where the migration failed, 2 bad usage.\n\n"
    "      --listen ADDRESS   tcp:HOST:PORT or unix:PATH; tcp:PORT listens on\n"
    "                         loopback only, port 0 takes a free one, and the line\n"
    "                         'listening on …' names it\n"
    "      --stdio            the stream is standard input and output (for exec:ssh)\n"
    "      --from file:PATH   a snapshot that `migrate … file:PATH` saved\n"
    "      --paused           with --from: the guest waits for `cont`\n"
    "      --control PATH     control socket (QMP), there from the start\n"
    "      --serial CONSOLE   stdio (default; null with --stdio), null, or file:PATH\n"
    "      --backing KIND     memory: anon, memfd, thp (default) or hugetlb\n"
    "      --dirty-log KIND   for migrating on: bitmap (default) or ring[:ENTRIES]\n"
    "      --trace exits      count what vCPUs leave KVM for; a table at the end\n"
    "      --deadline T       give up when nothing moves so long (default 10s)\n"
    "      --keepalive T      TCP: silence before the kernel probes (default 5s)\n"
    "      --answer T         how long a source in doubt is answered (default 300s)\n"
    "      --json             print one JSON object when the guest has arrived; on\n"
    "                         standard error where standard output is taken\n";

struct receive_options {
    const char *listen, *from, *backing, *dirty_log, *trace;
    bool use_stdio, paused, json;
    struct incoming_times times;
    struct server_options server;
};

/* The waiting process. */
struct receiver {
    struct server server;
    struct incoming incoming;
    bool told;    /* the outcome */
    FILE *report; /* where --json goes; NULL = not asked for */
};

static int check_options(struct receive_options *options, int noperands, char **operands)
{
    struct error err = {.text = ""};
    int rc = 0;

    if (noperands)
        rc = error_set(&err, EINVAL, "'%s' is left over: see --help", operands[0]);
    else if (!!options->listen + !!options->from + options->use_stdio != 1)
        rc = error_set(&err, EINVAL, "write one of --listen ADDRESS, --stdio and --from file:PATH");
    else if (options->paused && !options->from)
        rc = error_set(&err, EINVAL,
                       "--paused goes with --from: a guest that migrates arrives as it was");
    else if (options->use_stdio && options->server.serial &&
             strcmp(options->server.serial, "stdio") == 0)
        rc = error_set(&err, EINVAL,
                       "--stdio takes standard input and output: --serial can be null or "
                       "file:PATH");
    if (!rc)
        rc = link_times_check(options->times.deadline_ns, options->times.keepalive_ns, &err);
    if (!rc && options->times.answer_ns > ANSWERING_MAX_NS)
        rc = error_set(&err, EINVAL, "--answer: at most 86400s");
    if (!options->server.serial)
        options->server.serial = options->use_stdio ? "null" : "stdio";
    if (rc)
        log_error("%s", err.text);
    return rc;
}

static void print_report(const struct receiver *receiver, const char *status, const char *reason)
{
    struct progress_view view;
    json_t *object;
    char *text;

    if (!receiver->report)
        return;
    progress_get((struct progress *)(uintptr_t)&receiver->incoming.progress, &view);
    object = json_pack("{s:s, s:I, s:I, s:I}", "status", status, "resumed_ns",
                       (json_int_t)view.resumed_at_ns, "bytes_received",
                       (json_int_t)view.sent_bytes, "rounds", (json_int_t)view.nrounds);
    if (reason)
        (void)json_object_set_new(object, "error", json_text(reason));
    text = json_dumps(object, JSON_COMPACT);
    (void)fprintf(receiver->report, "%s\n", text ? text : "{}");
    (void)fflush(receiver->report);
    free(text);
    json_decref(object);
}

static void take_outcome(struct receiver *receiver)
{
    struct server *server = &receiver->server;
    struct incoming *incoming = &receiver->incoming;

    switch (incoming->outcome) {
    case RECEIVE_RUNNING:
        log_info("the guest has arrived: %s", server_run_state(server));
        print_report(receiver, server_run_state(server), NULL);
        control_event(&server->control, "MIGRATION", json_pack("{s:s}", "status", "completed"));
        if (strcmp(server_run_state(server), "running") == 0)
            control_event(&server->control, "RESUME", NULL);
        server_adopt_machine(server);
        return;
    case RECEIVE_CHECKED: /* only --stdio ends with it */
        server->exit_code = incoming->err.text[0] ? SERVER_EXIT_FAILURE : 0;
        print_report(receiver, incoming->err.text[0] ? "refused" : "checked",
                     incoming->err.text[0] ? incoming->err.text : NULL);
        break;
    case RECEIVE_STRANGER:
    case RECEIVE_DISCARDED:
    case RECEIVE_ABANDONED:
        log_error(incoming->snapshot_path ? "the restore failed: %s" : "the migration failed %s",
                  incoming->err.text);
        print_report(receiver, "failed", incoming->err.text);
        if (incoming_answers(incoming))
            log_info("the source may be in doubt: it is answered for %llu s that the guest was "
                     "discarded here, then this process ends",
                     (unsigned long long)(incoming->times.answer_ns / CLOCK_NS_PER_SEC));
        server->exit_code = SERVER_EXIT_FAILURE;
        break;
    }
}

static void on_incoming_done(void *opaque, uint32_t events)
{
    struct receiver *receiver = opaque;
    struct server *server = &receiver->server;
    struct incoming *incoming = &receiver->incoming;
    uint64_t count;

    (void)events;
    (void)!read(incoming->done_fd, &count, sizeof(count));
    if (!receiver->told)
        take_outcome(receiver);
    receiver->told = true;
    if (!__atomic_load_n(&incoming->ended, __ATOMIC_ACQUIRE))
        return;
    loop_remove(&server->loop, incoming->done_fd);
    incoming_collect(incoming);
    if (!server->has_guest)
        loop_stop(&server->loop);
}

/* Descriptors 0 and 1 become the stream; what prints to standard output by mistake must not break
 * it. */
static int take_stdio(int *in_fd, int *out_fd, struct error *err)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    *in_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    *out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (null_fd < 0 || *in_fd < 0 || *out_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
        dup2(null_fd, STDOUT_FILENO) < 0)
        return error_set(err, errno, "standard input and output: %s", strerror(errno));
    (void)close(null_fd);
    return 0;
}

/* Where the guest comes from, started. */
static int restore(struct receiver *receiver, const struct receive_options *options,
                   const struct machine_host *made_for, struct error *err)
{
    struct uri uri;
    int rc = uri_parse(options->from, &uri, err);

    if (rc || uri.kind != URI_FILE)
        return error_set(err, EINVAL, "'%.200s' is no snapshot's address: write --from file:PATH",
                         options->from);
    return incoming_restore(&receiver->incoming, &receiver->server.host, made_for,
                            options->from + strlen("file:"), options->paused, err);
}

static int start(struct receiver *receiver, const struct receive_options *options,
                 struct error *err)
{
    struct server *server = &receiver->server;
    struct machine_host made_for = {0};
    char chosen[URI_MAX_BYTES];
    struct uri uri;
    const char *unix_path = NULL;
    int listen_fd = -1, in_fd = -1, out_fd = -1;
    int rc = machine_host_options_parse(&server->host.kvm, options->backing, options->dirty_log,
                                        &made_for, err);

    if (!rc)
        rc = machine_host_options_trace(options->trace, &made_for, err);
    if (!rc && options->use_stdio)
        rc = take_stdio(&in_fd, &out_fd, err);
    if (!rc && options->listen) {
        rc = uri_parse(options->listen, &uri, err);
        if (!rc)
            rc = uri_listen(&uri, &listen_fd, chosen, err);
        if (!rc && uri.kind == URI_UNIX)
            unix_path = options->listen + strlen("unix:");
    }
    if (!rc && options->from)
        rc = restore(receiver, options, &made_for, err);
    else if (!rc)
        rc = incoming_start(&receiver->incoming, &server->host, &made_for, &options->times,
                            listen_fd, unix_path, in_fd, out_fd, err);
    if (!rc &&
        loop_add(&server->loop, receiver->incoming.done_fd, EPOLLIN, on_incoming_done, receiver))
        rc = error_set(err, ENOSPC, "the control loop takes no more descriptors");
    if (!rc && options->listen)
        log_info("listening on %s", chosen);
    return rc;
}

static int receive(const struct receive_options *options)
{
    struct receiver receiver;
    struct error err = {.text = ""};
    int rc;

    memset(&receiver, 0, sizeof(receiver));
    if (options->json)
        receiver.report =
            options->use_stdio || strcmp(options->server.serial, "stdio") == 0 ? stderr : stdout;
    rc = server_init(&receiver.server, &options->server, &err);
    if (!rc)
        rc = start(&receiver, options, &err);
    if (rc) {
        log_error("%s", err.text);
        rc = rc == -EINVAL ? SERVER_EXIT_USAGE : SERVER_EXIT_FAILURE;
    } else {
        rc = server_run(&receiver.server);
    }
    incoming_finish(&receiver.incoming);
    if (!receiver.server.has_guest && !receiver.told && rc == 0 && receiver.incoming.guest_lost) {
        log_error(receiver.incoming.snapshot_path ? "the restore failed: %s"
                                                  : "the migration failed %s",
                  receiver.incoming.err.text);
        rc = SERVER_EXIT_FAILURE;
    }
    server_destroy(&receiver.server);
    return rc;
}

int cmd_receive(int argc, char **argv)
{
    struct receive_options options = {.backing = "thp",
                                      .dirty_log = "bitmap",
                                      .times = {.deadline_ns = MIGRATE_DEADLINE_NS,
                                                .keepalive_ns = MIGRATE_KEEPALIVE_NS,
                                                .answer_ns = ANSWERING_DEFAULT_NS}};
    const struct option_rule rules[] = {
        {"listen", 0, OPTION_STRING, &options.listen, 0},
        {"stdio", 0, OPTION_FLAG, &options.use_stdio, 0},
        {"from", 0, OPTION_STRING, &options.from, 0},
        {"paused", 0, OPTION_FLAG, &options.paused, 0},
        {"control", 0, OPTION_STRING, &options.server.control_path, 0},
        {"serial", 0, OPTION_STRING, &options.server.serial, 0},
        {"backing", 0, OPTION_STRING, &options.backing, 0},
        {"dirty-log", 0, OPTION_STRING, &options.dirty_log, 0},
        {"trace", 0, OPTION_STRING, &options.trace, 0},
        {"deadline", 0, OPTION_DURATION, &options.times.deadline_ns, 0},
        {"keepalive", 0, OPTION_DURATION, &options.times.keepalive_ns, 0},
        {"answer", 0, OPTION_DURATION, &options.times.answer_ns, 0},
        {"json", 0, OPTION_FLAG, &options.json, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0}};
    char **operands;
    int noperands;
    enum options_result result;

    result = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (result != OPTIONS_GO)
        return (int)result;
    if (check_options(&options, noperands, operands))
        return SERVER_EXIT_USAGE;
    return receive(&options);
}
