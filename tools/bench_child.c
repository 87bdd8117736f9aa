/* SPDX-License-Identifier: MIT */
#include "tools/bench_child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 100

/* A signal may come while nobody waits, so that EINTR is not enough. */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void bench_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)sigaction(numbers[i], &action, NULL);
}

bool bench_interrupted(void)
{
    return interrupted != 0;
}

void bench_die_with(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before we asked */
}

int bench_child_start(struct bench_child *child, bench_child_main *main, void *opaque,
                      size_t result_bytes, struct error *err)
{
    char result[BENCH_CHILD_RESULT_MAX] = {0};
    pid_t parent = getpid();
    int fds[2];

    if (pipe(fds))
        return error_set(err, errno, "a pipe: %s", strerror(errno));
    (void)fflush(NULL);
    *child = (struct bench_child){.pid = fork(), .fd = fds[0], .result_bytes = result_bytes};
    if (child->pid == 0) {
        bench_die_with(parent);
        (void)close(fds[0]);
        main(opaque, result);
        _exit(write(fds[1], result, result_bytes) == (ssize_t)result_bytes ? 0 : 1);
    }
    (void)close(fds[1]);
    if (child->pid > 0)
        return 0;
    (void)close(fds[0]);
    return error_set(err, errno, "a process: %s", strerror(errno));
}

void bench_child_kill(struct bench_child *child)
{
    (void)kill(child->pid, SIGKILL);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)close(child->fd);
}

int bench_child_finish(struct bench_child *child, void *result, struct error *err)
{
    struct pollfd told = {.fd = child->fd, .events = POLLIN};
    ssize_t got = -1;
    int code = EINTR;

    while (!interrupted && poll(&told, 1, POLL_MS) <= 0)
        ;
    if (!interrupted) {
        got = read(child->fd, result, child->result_bytes);
        code = got < 0 ? errno : 0;
    }

    bench_child_kill(child); /* it has nothing more to do */
    if (code)
        return error_set(err, code, "%s", code == EINTR ? "interrupted" : strerror(code));
    if (got != (ssize_t)child->result_bytes)
        return error_set(err, ECHILD, "a process of the bench ended before its time");
    return 0;
}

int bench_listen(struct bench_listener *listener, struct error *err)
{
    socklen_t length = sizeof(listener->address);

    listener->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener->fd < 0)
        return error_set(err, errno, "a socket: %s", strerror(errno));
    if (bind(listener->fd, (struct sockaddr *)&listener->address, length) ||
        listen(listener->fd, 16) ||
        getsockname(listener->fd, (struct sockaddr *)&listener->address, &length)) {
        int code = errno;

        (void)close(listener->fd);
        return error_set(err, code, "a listener on the loopback: %s", strerror(code));
    }
    return 0;
}

int bench_accept(const struct bench_listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int bench_connect(const struct bench_listener *listener)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&listener->address, sizeof(listener->address))) {
        int code = errno;

        (void)close(fd);
        return -code;
    }
    return fd;
}

int bench_tell_go(int fd)
{
    return send(fd, "g", 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

int bench_await_go(int fd)
{
    char word;
    ssize_t got = recv(fd, &word, 1, 0);

    return got == 1 ? 0 : got ? -errno : -ECONNRESET;
}

void bench_fill(uint8_t *memory, uint64_t bytes, uint64_t first)
{
    uint64_t *words = (uint64_t *)(void *)memory;

    for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
        words[i] = (first / sizeof(*words) + i) * 0x9e3779b97f4a7c15ull + 1;
}
