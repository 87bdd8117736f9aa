/* SPDX-License-Identifier: MIT */
#include "tools/bench_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench_child.h"
#include "vmm/base/clock.h"

#define PATIENCE_NS (60 * CLOCK_NS_PER_SEC)
#define POLL_NS     (2 * CLOCK_NS_PER_MS)
#define LISTENING   "listening on "
#define MAX_WORDS   24

static const char *const file_names[] = {"source.sock", "target.sock", "source.err", "target.err",
                                         "migrate.err", "source.out",  "target.out", "migrate.out"};

static void file_of(const struct bench_pair *pair, const char *who, const char *what, char path[96])
{
    (void)snprintf(path, 96, "%s/%s.%s", pair->directory, who, what);
}

static void redirect(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (file < 0 || dup2(file, fd) < 0)
        _exit(1);
}

/* This program again, with other words. */
static int spawn(const struct bench_pair *pair, const char *who, const char *const *words,
                 pid_t *pid, struct error *err)
{
    char out[96], errors[96];
    pid_t parent = getpid();

    file_of(pair, who, "out", out);
    file_of(pair, who, "err", errors);
    (void)fflush(NULL);
    *pid = fork();
    if (*pid < 0)
        return error_set(err, errno, "a process: %s", strerror(errno));
    if (*pid == 0) {
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

        bench_die_with(parent);
        (void)setpgid(0, 0); /* Ctrl-C is the bench's, which ends this one */
        if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
            _exit(1);
        redirect(out, STDOUT_FILENO);
        redirect(errors, STDERR_FILENO);
        (void)execv("/proc/self/exe", (char *const *)(uintptr_t)words);
        _exit(127);
    }
    return 0;
}

bool bench_process_ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}

static void end_process(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, SIGKILL);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
}

static void read_file(const char *path, char *text, size_t text_bytes)
{
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, text_bytes - 1, file) : 0;

    text[length] = '\0';
    if (file)
        (void)fclose(file);
}

void bench_pair_last_words(const struct bench_pair *pair, const char *who, char *text,
                           size_t text_bytes)
{
    char path[96], all[4096];
    char *line, *end;

    file_of(pair, who, "err", path);
    read_file(path, all, sizeof(all));
    end = all + strlen(all);
    while (end > all && end[-1] == '\n')
        *--end = '\0';
    line = strrchr(all, '\n');
    line = line ? line + 1 : all;
    (void)snprintf(text, text_bytes, "%s", *line ? line : "it said nothing");
}

/* The receiver says which port it got. */
static int await_uri(struct bench_pair *pair, struct error *err)
{
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    char path[96], text[4096];
    int status;

    file_of(pair, "target", "err", path);
    for (;;) {
        const char *found;

        read_file(path, text, sizeof(text));
        found = strstr(text, LISTENING);
        if (found && strchr(found, '\n')) {
            found += strlen(LISTENING);
            (void)snprintf(pair->uri, sizeof(pair->uri), "%.*s", (int)strcspn(found, " \n"), found);
            return 0;
        }
        if (bench_process_ended(pair->target, &status)) {
            pair->target = 0;
            bench_pair_last_words(pair, "target", text, 256);
            return error_set(err, ECHILD, "the receiver did not start: %.250s", text);
        }
        if (clock_now_ns() > until)
            return error_set(err, ETIMEDOUT, "the receiver does not listen");
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        if (bench_interrupted())
            return error_set(err, EINTR, "interrupted");
    }
}

int bench_pair_start(struct bench_pair *pair, const struct bench_migrate_config *config,
                     struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    char source_control[96], target_control[96], memory[32], cpus[16];
    const char *backing = memory_backing_name(config->backing);
    const char *log =
        config->dirty_log && strncmp(config->dirty_log, "ring", 4) == 0 ? "ring" : "bitmap";
    int rc;

    *pair = (struct bench_pair){0};
    (void)snprintf(pair->directory, sizeof(pair->directory), "%.32s/pageferry-bench-XXXXXX",
                   tmp && strlen(tmp) <= 32 ? tmp : "/tmp");
    if (!mkdtemp(pair->directory)) {
        rc = error_set(err, errno, "%s: %s", pair->directory, strerror(errno));
        pair->directory[0] = '\0';
        return rc;
    }
    file_of(pair, "source", "sock", source_control);
    file_of(pair, "target", "sock", target_control);
    (void)snprintf(memory, sizeof(memory), "%" PRIu64, config->memory_bytes);
    (void)snprintf(cpus, sizeof(cpus), "%u", config->ncpus);
    rc = spawn(pair, "target",
               (const char *[]){"pageferry", "receive", "--listen", "tcp:127.0.0.1:0", "--control",
                                target_control, "--backing", backing, "--dirty-log", log, NULL},
               &pair->target, err);
    if (!rc)
        rc = spawn(pair, "source",
                   (const char *[]){"pageferry", "run", "-m", memory, "-c", cpus, "--append",
                                    config->workload, "--control", source_control, "--backing",
                                    backing, "--dirty-log", log, NULL},
                   &pair->source, err);
    if (!rc)
        rc = await_uri(pair, err);
    if (rc)
        bench_pair_end(pair);
    return rc;
}

int bench_pair_migrate(const struct bench_pair *pair, const struct bench_migrate_config *config,
                       pid_t *pid, struct error *err)
{
    char streams[24], bandwidth[24], limit[24];
    const struct {
        const char *name, *value;
    } passed[] = {{"--streams", config->streams > 1 ? streams : NULL},
                  {"--max-bandwidth", bandwidth},
                  {"--downtime-limit", limit},
                  {"--dirty-log", config->dirty_log}};
    char control[96];
    const char *words[MAX_WORDS] = {"pageferry", "migrate", "--control", control, "--json"};
    unsigned n = 5;

    (void)snprintf(streams, sizeof(streams), "%" PRIu64, config->streams);
    (void)snprintf(bandwidth, sizeof(bandwidth), "%" PRIu64, config->max_bandwidth);
    (void)snprintf(limit, sizeof(limit), "%" PRIu64 "ns", config->downtime_limit_ns);
    file_of(pair, "source", "sock", control);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        if (passed[i].value) {
            words[n++] = passed[i].name;
            words[n++] = passed[i].value;
        }
    }
    words[n] = pair->uri;
    return spawn(pair, "migrate", words, pid, err);
}

void bench_pair_end(struct bench_pair *pair)
{
    end_process(&pair->source);
    end_process(&pair->target);
    if (!pair->directory[0])
        return;
    for (size_t i = 0; i < sizeof(file_names) / sizeof(file_names[0]); i++) {
        char path[96];

        (void)snprintf(path, sizeof(path), "%s/%s", pair->directory, file_names[i]);
        (void)unlink(path);
    }
    (void)rmdir(pair->directory);
    pair->directory[0] = '\0';
}
