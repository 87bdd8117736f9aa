/* SPDX-License-Identifier: MIT */
#include "tools/bench_usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmm/base/clock.h"
#include "vmm/base/size.h"

#define STATUS_BYTES 8192

static uint64_t field(const char *status, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = status; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            return strtoull(line + length + 1, NULL, 10) * SIZE_KIB;
    }
    return 0;
}

void bench_usage_parse(const char *status, struct bench_usage *usage)
{
    usage->peak_bytes = field(status, "VmHWM");
    usage->anon_bytes = field(status, "RssAnon");
    usage->file_bytes = field(status, "RssFile");
    usage->shmem_bytes = field(status, "RssShmem");
}

int bench_usage_of(pid_t pid, struct bench_usage *usage, struct error *err)
{
    char path[64], status[STATUS_BYTES];
    struct timespec used;
    clockid_t clock;
    size_t length;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return error_set(err, errno, "%s: %s", path, strerror(errno));
    length = fread(status, 1, sizeof(status) - 1, file);
    (void)fclose(file);
    status[length] = '\0';
    bench_usage_parse(status, usage);
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
        return error_set(err, ESRCH, "the CPU time of process %d cannot be told", (int)pid);
    usage->cpu_ns = (uint64_t)used.tv_sec * CLOCK_NS_PER_SEC + (uint64_t)used.tv_nsec;
    return 0;
}
