/* SPDX-License-Identifier: MIT */
#include "tools/migration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "migrate/snapshot_save.h"
#include "vmm/base/log.h"

int migration_init(struct migration *migration, struct vm_host *host, struct error *err)
{
    memset(migration, 0, sizeof(*migration));
    migration->host = host;
    migration->given_fd = -1;
    migration->link = (struct channel_options){
        .deadline_ns = MIGRATE_DEADLINE_NS, .keepalive_ns = MIGRATE_KEEPALIVE_NS, .cancel_fd = -1};
    migration->options = (struct precopy_options){.downtime_limit_ns = PRECOPY_DOWNTIME_LIMIT_NS,
                                                  .chunk_pages = PRECOPY_CHUNK_PAGES,
                                                  .streams = 1,
                                                  .compress_level = PRECOPY_ZSTD_LEVEL,
                                                  .zerocopy = CHANNEL_ZEROCOPY_AUTO};
    dirty_log_trust_init(&migration->trust, NULL, &migration->interrupted);
    progress_init(&migration->progress);
    migration->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    migration->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    migration->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    migration->progress.notify_fd = migration->event_fd;
    if (migration->event_fd < 0 || migration->cancel_fd < 0 || migration->done_fd < 0)
        return error_set(err, errno, "eventfd: %s", strerror(errno));
    return doubt_init(&migration->doubt, err);
}

static void signal_fd(int fd)
{
    uint64_t one = 1;

    /* An eventfd far from its limit: cannot fail. */
    (void)!write(fd, &one, sizeof(one));
}

static void drain_fd(int fd)
{
    uint64_t count;

    (void)!read(fd, &count, sizeof(count));
}

static int connect_stream(struct migration *migration, int *fd, pid_t *child, struct error *err)
{
    switch (migration->uri.kind) {
    case URI_FD:
        *fd = migration->given_fd;
        migration->given_fd = -1;
        return 0;
    case URI_EXEC:
        return uri_spawn(&migration->uri, fd, child, err);
    case URI_TCP:
    case URI_UNIX:
    case URI_FILE: /* never comes here: no stream */
        break;
    }
    return uri_connect(&migration->uri, migration->running_link.deadline_ns, migration->cancel_fd,
                       fd, err);
}

/* Before anything is sent: a log that loses pages loses the guest. */
static int trust_dirty_log(struct migration *migration, struct error *err)
{
    struct dirty_log_vm vm = machine_dirty_log(vm_host_machine(migration->host));
    enum dirty_log_backend backend = migration->binding.log_options.backend;
    int rc = 0;

    if (!migration->running_options.check_only)
        rc = dirty_log_trust_choose(&migration->trust, &vm, migration->running_chosen, &backend,
                                    err);
    __atomic_store_n(&migration->binding.log_options.backend, backend, __ATOMIC_RELAXED);
    return rc;
}

static struct channel_options channel_options(const struct migration *migration)
{
    struct channel_options options = migration->running_link;

    options.cancel_fd = migration->cancel_fd;
    return options;
}

/* One more stream to where the first one goes. */
static int connect_next(void *opaque, struct channel **out, struct error *err)
{
    struct migration *migration = opaque;
    struct channel_options options = channel_options(migration);
    int fd = -1;
    int rc = uri_connect_again(&migration->uri, channel_fd(migration->first), options.deadline_ns,
                               migration->cancel_fd, &fd, err);

    return rc ? rc : channel_open(out, fd, fd, &options, err);
}

static bool can_connect_more(const struct uri *uri)
{
    return uri->kind == URI_TCP || uri->kind == URI_UNIX;
}

bool migration_is_snapshot(const struct migration *migration)
{
    return migration->state != MIGRATION_NONE && migration->uri.kind == URI_FILE;
}

static enum precopy_outcome save_snapshot(struct migration *migration,
                                          const struct migrate_source *source, struct error *err)
{
    struct snapshot_options options = {.copy = migration->running_options,
                                       .stop = migration->running_stop,
                                       .cancel_fd = migration->cancel_fd};

    return snapshot_save_run(source, migration->uri.rest, &options, &migration->progress, err);
}

static enum precopy_outcome attempt(struct migration *migration, struct error *err)
{
    struct channel_options options = channel_options(migration);
    struct migrate_links links = {.next = can_connect_more(&migration->uri) ? connect_next : NULL,
                                  .opaque = migration};
    struct migrate_source source = binding_source_ops(&migration->binding);
    enum precopy_outcome outcome = PRECOPY_FAILED;
    pid_t child = -1;
    int fd = -1;
    int rc = trust_dirty_log(migration, err);

    if (rc) {
        if (migration->given_fd >= 0)
            (void)close(migration->given_fd);
        migration->given_fd = -1;
        if (rc == -ECANCELED && source.ops->alive(source.opaque, err) == 0)
            return PRECOPY_CANCELLED;
        error_prefix(err, "before connecting");
        return PRECOPY_FAILED;
    }
    if (migration->uri.kind == URI_FILE)
        return save_snapshot(migration, &source, err);
    rc = connect_stream(migration, &fd, &child, err);
    if (!rc)
        rc = channel_open(&links.first, fd, fd, &options, err);
    migration->first = links.first;
    if (!rc)
        outcome =
            precopy_run(&source, &links, &migration->running_options, &migration->progress, err);
    else if (rc == -ECANCELED && source.ops->alive(source.opaque, err) == 0)
        outcome = PRECOPY_CANCELLED;
    else
        error_prefix(err, "%s", progress_phase_name(PROGRESS_CONNECT));
    /* Where the guest went, or may have gone, the command carries it and ends with it. */
    if (child > 0 && (outcome == PRECOPY_COMPLETED || outcome == PRECOPY_IN_DOUBT))
        uri_leave(child);
    if (outcome == PRECOPY_IN_DOUBT) {
        vm_host_engine_in_doubt(migration->host);
        doubt_begin(&migration->doubt, links.first, &migration->running_link);
        return outcome;
    }
    channel_close(links.first);
    if (child > 0 && outcome != PRECOPY_COMPLETED)
        uri_reap(child);
    return outcome;
}

static void *migration_main(void *opaque)
{
    struct migration *migration = opaque;

    migration->outcome = attempt(migration, &migration->err);
    if (migration->outcome == PRECOPY_COMPLETED && migration->uri.kind != URI_FILE)
        machine_release(migration->host->machine); /* outside the downtime */
    signal_fd(migration->done_fd);
    return NULL;
}

/* May this guest be migrated now? */
static int may_start(const struct migration *migration, bool check_only, struct error *err)
{
    struct vm_host *host = migration->host;
    const struct machine *machine = vm_host_machine(host);

    if (migration->state == MIGRATION_UNDER_WAY)
        return error_set(err, EBUSY, "a migration is under way");
    if (!machine)
        return error_set(err, EBUSY, "no guest has arrived yet");
    if (host->in_doubt)
        return error_set(
            err, EPERM,
            "in doubt: the destination of the last migration may be running this guest");
    if (host->debugged && !check_only)
        return error_set(err, EBUSY,
                         "a debugger is attached: detach it first, so that none of its "
                         "breakpoints goes with the guest");
    switch (machine_state(machine)) {
    case MACHINE_RUNNING:
    case MACHINE_PAUSED:
        return 0;
    case MACHINE_CREATED:
        return check_only ? 0
                          : error_set(err, EBUSY, "the guest was never started: continue it first");
    case MACHINE_MOVED:
        return error_set(err, ESHUTDOWN, "the guest has moved to another host");
    case MACHINE_STOPPED:
        break;
    }
    return error_set(err, ESHUTDOWN, "the guest has ended");
}

static int choose_dirty_log(const struct migration *migration, enum dirty_log_backend *backend,
                            struct error *err)
{
    struct dirty_log_vm vm = machine_dirty_log(vm_host_machine(migration->host));

    *backend =
        migration->dirty_log_chosen ? migration->dirty_log : dirty_log_best(vm.kvm, vm.rings);
    return dirty_log_check(&vm, *backend, err);
}

/* The binding of a new attempt; what was kept of the last one goes. */
static int bind_source(struct migration *migration, const char *record_path, struct error *err)
{
    struct binding_source binding = {.host = migration->host,
                                     .zero_pages = migration->zero_pages,
                                     .log_options.chunk_pages = migration->options.chunk_pages};
    int rc = choose_dirty_log(migration, &binding.log_options.backend, err);

    if (!rc && record_path)
        rc = binding_source_record(&binding, record_path, err);
    if (rc) {
        binding_recorder_free(&binding.recorder);
        return rc;
    }
    binding_recorder_free(&migration->binding.recorder);
    migration->binding = binding;
    return 0;
}

/* Before anything of the last attempt is forgotten. */
static int check_request(const struct migration *migration, const struct migration_request *request,
                         struct uri *uri, struct error *err)
{
    int rc = may_start(migration, request->check_only, err);

    if (!rc)
        rc = uri_parse(request->uri, uri, err);
    if (rc)
        return rc;
    if (uri->kind == URI_FD && request->given_fd < 0)
        return error_set(err, EBADF, "no descriptor named '%.100s' was passed with getfd",
                         uri->rest);
    if (migration->options.streams > 1 && !can_connect_more(uri))
        return error_set(err, EINVAL, "%u streams need a tcp: or unix: address: use one stream",
                         migration->options.streams);
    if (uri->kind == URI_FILE && request->check_only)
        return error_set(err, EINVAL, "a file takes any guest: there is nothing to check");
    if (uri->kind != URI_FILE && request->stop)
        return error_set(err, EINVAL, "only a snapshot, file:PATH, can leave the guest stopped");
    if (request->check_only && request->record_path)
        return error_set(err, EINVAL, "a mere check has no dirty pages to record");
    return 0;
}

int migration_start(struct migration *migration, const struct migration_request *request,
                    struct error *err)
{
    struct uri uri;
    int rc = check_request(migration, request, &uri, err);

    if (!rc)
        rc = bind_source(migration, request->record_path, err);
    if (rc)
        goto fail;
    (void)snprintf(migration->uri_text, sizeof(migration->uri_text), "%s", request->uri);
    migration->uri = uri;
    migration->given_fd = request->given_fd;
    migration->running_options = migration->options;
    migration->running_options.doubt = &migration->doubt.of;
    migration->running_link = migration->link;
    migration->running_options.check_only = request->check_only;
    migration->running_stop = request->stop;
    migration->running_chosen = migration->dirty_log_chosen;
    migration->err.text[0] = '\0';
    migration->cancel_asked = false;
    __atomic_store_n(&migration->interrupted, false, __ATOMIC_RELEASE);
    drain_fd(migration->cancel_fd);
    memset(progress_begin(&migration->progress), 0, sizeof(struct progress_view));
    progress_end(&migration->progress);
    rc = -pthread_create(&migration->thread, NULL, migration_main, migration);
    if (rc) {
        migration->given_fd = -1;
        binding_recorder_free(&migration->binding.recorder);
        rc = error_set(err, -rc, "a thread for the migration: %s", strerror(-rc));
        goto fail;
    }
    migration->state = MIGRATION_UNDER_WAY;
    return 0;
fail:
    if (request->given_fd >= 0)
        (void)close(request->given_fd);
    return rc;
}

void migration_cancel(struct migration *migration)
{
    if (migration->state == MIGRATION_UNDER_WAY)
        migration->cancel_asked = true;
    migration_interrupt(migration);
}

void migration_interrupt(struct migration *migration)
{
    if (migration->state != MIGRATION_UNDER_WAY)
        return;
    __atomic_store_n(&migration->interrupted, true, __ATOMIC_RELEASE);
    signal_fd(migration->cancel_fd);
}

void migration_collect(struct migration *migration)
{
    if (migration->state != MIGRATION_UNDER_WAY)
        return;
    (void)pthread_join(migration->thread, NULL);
    drain_fd(migration->done_fd);
    binding_source_end(&migration->binding);
    migration->state = MIGRATION_ENDED;
    if (migration->running_options.check_only)
        return;
    switch (migration->outcome) {
    case PRECOPY_COMPLETED:
        log_info(migration_is_snapshot(migration) ? "the guest was saved to %s"
                                                  : "the guest has moved to %s",
                 migration->uri_text);
        break;
    case PRECOPY_IN_DOUBT:
        log_error("in doubt whether the guest runs at %s: it stays paused here until resolve "
                  "owner=source or owner=destination (%s)",
                  migration->uri_text, migration->err.text);
        break;
    case PRECOPY_CANCELLED:
        log_info("the migration was cancelled");
        break;
    case PRECOPY_FAILED:
    case PRECOPY_ACCEPTED:
        log_error("the migration failed %s", migration->err.text);
        break;
    }
}

void migration_destroy(struct migration *migration)
{
    migration_cancel(migration);
    migration_collect(migration);
    doubt_destroy(&migration->doubt);
    binding_recorder_free(&migration->binding.recorder);
    (void)close(migration->cancel_fd);
    (void)close(migration->done_fd);
    (void)close(migration->event_fd);
    progress_destroy(&migration->progress);
}

const char *migration_outcome_name(enum precopy_outcome outcome)
{
    switch (outcome) {
    case PRECOPY_COMPLETED:
        return "completed";
    case PRECOPY_ACCEPTED:
        return "accepted";
    case PRECOPY_FAILED:
        return "failed";
    case PRECOPY_CANCELLED:
        return "cancelled";
    case PRECOPY_IN_DOUBT:
        return "in-doubt";
    }
    return "unknown";
}
