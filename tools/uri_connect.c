/* SPDX-License-Identifier: MIT
 *
 * Sockets and commands behind a migration address. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/uri.h"
#include "tools/uri_resolve.h"
#include "vmm/base/clock.h"

#define REAP_GRACE_MS  2000
#define LISTEN_BACKLOG 8

static int unix_address(const char *path, struct sockaddr_un *address, struct error *err)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(address->sun_path))
        return error_set(err, ENAMETOOLONG, "'%.200s': a socket path has at most %zu bytes", path,
                         sizeof(address->sun_path) - 1);
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

/* Waits until a connect that is under way has an outcome: 0 or -errno. */
static int await_connect(int fd, uint64_t until_ns, int cancel_fd)
{
    for (;;) {
        struct pollfd polls[2] = {{.fd = fd, .events = POLLOUT},
                                  {.fd = cancel_fd, .events = POLLIN}};
        uint64_t now = clock_now_ns();
        int code = 0;
        socklen_t length = sizeof(code);
        int ready;

        if (now >= until_ns)
            return -ETIMEDOUT;
        ready = poll(polls, 2, (int)((until_ns - now) / CLOCK_NS_PER_MS) + 1);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready <= 0)
            continue;
        if (polls[1].revents)
            return -ECANCELED;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length))
            return -errno;
        return -code;
    }
}

static int connect_one(const struct sockaddr *address, socklen_t length, uint64_t until_ns,
                       int cancel_fd, int *out)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, address, length))
        rc = errno == EINPROGRESS ? await_connect(fd, until_ns, cancel_fd) : -errno;
    if (rc) {
        (void)close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static int connect_failed(const struct uri *uri, int code, struct error *err)
{
    if (code == ECANCELED)
        return error_set(err, ECANCELED, "cancelled");
    if (uri->kind == URI_UNIX)
        return error_set(err, code, "cannot connect to unix:%s: %s", uri->rest, strerror(code));
    return error_set(err, code, "cannot connect to tcp:%s:%s: %s", uri->host, uri->port,
                     strerror(code));
}

int uri_connect(const struct uri *uri, uint64_t deadline_ns, int cancel_fd, int *fd,
                struct error *err)
{
    uint64_t until_ns = clock_now_ns() + deadline_ns;
    struct addrinfo *list = NULL;
    int rc;

    if (uri->kind == URI_UNIX) {
        struct sockaddr_un address;

        rc = unix_address(uri->rest, &address, err);
        if (rc)
            return rc;
        rc = connect_one((struct sockaddr *)&address, sizeof(address), until_ns, cancel_fd, fd);
        return rc ? connect_failed(uri, -rc, err) : 0;
    }
    rc = uri_resolve(uri->host, uri->port, false, until_ns, cancel_fd, &list, err);
    if (rc)
        return rc;
    rc = -EHOSTUNREACH;
    for (struct addrinfo *one = list; one && rc && rc != -ECANCELED; one = one->ai_next)
        rc = connect_one(one->ai_addr, one->ai_addrlen, until_ns, cancel_fd, fd);
    freeaddrinfo(list);
    return rc ? connect_failed(uri, -rc, err) : 0;
}

int uri_connect_again(const struct uri *uri, int like, uint64_t deadline_ns, int cancel_fd, int *fd,
                      struct error *err)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(address);
    int rc;

    if (getpeername(like, (struct sockaddr *)&address, &length))
        return connect_failed(uri, errno, err);
    rc = connect_one((struct sockaddr *)&address, length, clock_now_ns() + deadline_ns, cancel_fd,
                     fd);
    return rc ? connect_failed(uri, -rc, err) : 0;
}

int uri_spawn(const struct uri *uri, int *fd, pid_t *child, struct error *err)
{
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return error_set(err, errno, "socketpair: %s", strerror(errno));
    pid = fork();
    if (pid < 0) {
        int code = errno;

        (void)close(ends[0]);
        (void)close(ends[1]);
        return error_set(err, code, "fork: %s", strerror(code));
    }
    if (pid == 0) {
        sigset_t none;

        /* Only what is safe between fork and exec of a process with threads. */
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)signal(SIGXFSZ, SIG_DFL);
        (void)setsid(); /* a Ctrl-C at our terminal is not for whom carries the guest */
        if (dup2(ends[1], STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0)
            (void)execl("/bin/sh", "sh", "-c", uri->rest, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    *fd = ends[0];
    *child = pid;
    return 0;
}

static bool ended_within(pid_t child, unsigned ms)
{
    for (unsigned waited_ms = 0; waited_ms < ms; waited_ms += 10) {
        if (waitpid(child, NULL, WNOHANG) != 0)
            return true;
        (void)usleep(10 * 1000);
    }
    return false;
}

void uri_reap(pid_t child)
{
    bool ended = ended_within(child, REAP_GRACE_MS);

    /* What it started is in its group, and may have outlived it. */
    (void)kill(-child, SIGTERM);
    if (!ended)
        ended = ended_within(child, REAP_GRACE_MS);
    (void)kill(-child, SIGKILL);
    if (!ended)
        (void)waitpid(child, NULL, 0);
}

static void *reap_main(void *opaque)
{
    (void)waitpid((pid_t)(intptr_t)opaque, NULL, 0);
    return NULL;
}

void uri_leave(pid_t child)
{
    pthread_attr_t attributes;
    pthread_t thread;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* Without it the command stays a zombie until this process ends: no more than that. */
    (void)pthread_create(&thread, &attributes, reap_main, (void *)(intptr_t)child);
    (void)pthread_attr_destroy(&attributes);
}

/* A socket file that nobody listens on any more may go; anything else may not. */
static int clear_stale_socket(const char *path, const struct sockaddr_un *address,
                              struct error *err)
{
    struct stat info;
    int fd, rc;

    if (lstat(path, &info))
        return 0;
    if (!S_ISSOCK(info.st_mode))
        return error_set(err, EEXIST, "%s exists and is no socket", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, errno, "socket: %s", strerror(errno));
    rc = connect(fd, (const struct sockaddr *)address, sizeof(*address)) ? errno : 0;
    (void)close(fd);
    if (rc != ECONNREFUSED)
        return error_set(err, EADDRINUSE, "%s is in use by another process", path);
    (void)unlink(path);
    return 0;
}

int uri_listen_unix(const char *path, int *out, struct error *err)
{
    struct sockaddr_un address;
    mode_t old_mask;
    int fd = -1;
    int rc = unix_address(path, &address, err);

    if (!rc)
        rc = clear_stale_socket(path, &address, err);
    if (rc)
        return rc;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    old_mask = umask(0177);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
        listen(fd, LISTEN_BACKLOG)) {
        rc = error_set(err, errno, "cannot listen on %s: %s", path, strerror(errno));
        if (fd >= 0)
            (void)close(fd);
    }
    (void)umask(old_mask);
    if (!rc)
        *out = fd;
    return rc;
}

static int listen_one(const struct addrinfo *one, int *out)
{
    int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int yes = 1;
    int rc;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, one->ai_addr, one->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    rc = -errno;
    (void)close(fd);
    return rc;
}

static void name_tcp(int fd, char *chosen)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    char host[256], port[32];

    if (getsockname(fd, (struct sockaddr *)&address, &length) ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV))
        (void)snprintf(chosen, URI_MAX_BYTES, "tcp:?");
    else
        (void)snprintf(chosen, URI_MAX_BYTES, strchr(host, ':') ? "tcp:[%s]:%s" : "tcp:%s:%s", host,
                       port);
}

int uri_listen(const struct uri *uri, int *fd, char *chosen, struct error *err)
{
    struct addrinfo *list = NULL;
    int rc;

    if (uri->kind == URI_UNIX) {
        (void)snprintf(chosen, URI_MAX_BYTES, "unix:%.*s", URI_MAX_BYTES - 6, uri->rest);
        return uri_listen_unix(uri->rest, fd, err);
    }
    if (uri->kind == URI_FILE)
        return error_set(err, EINVAL, "write --from file:PATH to restore a guest from a file");
    if (uri->kind != URI_TCP)
        return error_set(err, EINVAL, "write --listen tcp:HOST:PORT or --listen unix:PATH");
    rc = uri_resolve(uri->host, uri->port, true, UINT64_MAX, -1, &list, err);
    if (rc)
        return rc;
    rc = listen_one(list, fd);
    freeaddrinfo(list);
    if (rc)
        return error_set(err, -rc, "cannot listen on tcp:%s:%s: %s", uri->host, uri->port,
                         strerror(-rc));
    name_tcp(*fd, chosen);
    return 0;
}
