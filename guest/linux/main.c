/* SPDX-License-Identifier: MIT
 *
 * The workload of a Linux guest: starts its parts, answers the console, and ends with one line. A
 * line "q" asks it to finish, "reboot" to do that and then to reset the machine; every other line
 * comes back behind "echo ". */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "guest/abi.h"
#include "guest/linux/workload.h"

#define LINE_BYTES    1024
#define STATUS_REBOOT 3                /* init knows it */
#define MAX_NAP_NS    (50 * NS_PER_MS) /* how late a thread may notice that it is to finish */

atomic_bool finishing;
static pthread_mutex_t console = PTHREAD_MUTEX_INITIALIZER;

uint64_t now_ns(int clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void sleep_until(uint64_t ns)
{
    uint64_t now;

    while (!atomic_load(&finishing) && (now = now_ns(CLOCK_MONOTONIC)) < ns) {
        uint64_t nap = ns - now < MAX_NAP_NS ? ns - now : MAX_NAP_NS;

        nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
    }
}

void stay_on(unsigned cpu)
{
    long ncpus = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu % (unsigned)ncpus, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void write_line(const char *format, va_list arguments)
{
    char line[LINE_BYTES];
    int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    size_t bytes = length < (int)sizeof(line) - 1 ? (size_t)length : sizeof(line) - 2;

    line[bytes++] = '\n';
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write(STDOUT_FILENO, line + done, bytes - done);

        if (wrote < 0 && errno != EINTR)
            return;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
}

void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    pthread_mutex_lock(&console);
    write_line(format, arguments);
    pthread_mutex_unlock(&console);
    va_end(arguments);
}

void fault(unsigned code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    pthread_mutex_lock(&console); /* for good: this is the last line */
    write_line(format, arguments);
    va_end(arguments);
    tcdrain(STDOUT_FILENO);
    if (ioperm(GUEST_EXIT_PORT_DEFAULT, sizeof(uint32_t), 1) == 0)
        outl(code, GUEST_EXIT_PORT_DEFAULT);
    _exit((int)code);
}

/* The console as bytes: no echo, no signals, no carriage returns. */
static void make_raw(void)
{
    struct termios mode;

    if (tcgetattr(STDIN_FILENO, &mode))
        return;
    cfmakeraw(&mode);
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

/* Returns the exit status that was asked for. */
static int answer_console(bool echo)
{
    char line[LINE_BYTES];

    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strcmp(line, "q") == 0)
            return 0;
        if (strcmp(line, "reboot") == 0)
            return STATUS_REBOOT;
        if (echo)
            say("echo %s", line);
    }
    return 0;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end = NULL;
    uint64_t value = text ? strtoull(text, &end, 0) : otherwise;

    if (!text)
        return otherwise;
    if (*end == 'M' && end++)
        value <<= 20;
    if (end == text || *end)
        fault(GUEST_EXIT_BAD_COMMAND, "%s=%s: a number is wanted, M behind it means MiB", name,
              text);
    return value;
}

/* Is this part of the word list in `workload`? Without one all are. */
static bool wanted(const char *part)
{
    const char *list = getenv("workload");
    size_t length = strlen(part);

    for (const char *at = list; at && *at; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, part, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    }
    return !list || strcmp(list, "all") == 0;
}

int main(void)
{
    struct options options = {
        .set_bytes = number("set", 32u << 20),
        .rate = number("rate", 1000),
        .ticks = (unsigned)number("ticks", wanted("ticks") ? 10 : 0),
        .sleepers = (unsigned)number("sleepers", wanted("sleepers") ? 8 : 0),
        .ncpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN),
        .memory = wanted("memory"),
        .clock = wanted("clock"),
        .echo = wanted("echo"),
    };
    uint64_t pages, reads, sleeps, lines;
    int status;

    make_raw();
    if (options.memory)
        memory_start(&options);
    if (options.clock)
        clock_start(&options);
    sleepers_start(&options);
    say("ready cpus=%u set=%" PRIu64 "M", options.ncpus, options.set_bytes >> 20);
    ticks_start(&options);
    status = answer_console(options.echo);
    atomic_store(&finishing, true);
    lines = ticks_finish();
    sleeps = sleepers_finish();
    reads = clock_finish();
    pages = options.memory ? memory_finish() : 0;
    say("linux: OK pages=%" PRIu64 " clock_reads=%" PRIu64 " sleeps=%" PRIu64 " lines=%" PRIu64,
        pages, reads, sleeps, lines);
    tcdrain(STDOUT_FILENO);
    return status;
}
