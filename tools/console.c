/* SPDX-License-Identifier: MIT */
#include "tools/console.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/base/log.h"

#define CTRL_A 0x01

/* The terminal becomes the guest's once there is a guest, and only if it is ours: from the
 * background, changing or reading it would stop the whole process. */
static void take_terminal(struct console *console)
{
    struct termios raw;
    pid_t foreground;

    if (console->in_fd < 0 || console->raw || !isatty(console->in_fd))
        return;
    foreground = tcgetpgrp(console->in_fd); /* fails where it is not our controlling terminal */
    if (foreground >= 0 && foreground != getpgrp()) {
        log_info("in the background: the guest gets no input");
        console->input_done = true;
        return;
    }
    if (tcgetattr(console->in_fd, &console->saved))
        return;
    raw = console->saved;
    cfmakeraw(&raw);
    raw.c_oflag |= OPOST; /* our own lines still end properly */
    if (tcsetattr(console->in_fd, TCSANOW, &raw))
        return;
    console->raw = true;
    log_info("the terminal is the guest's console; Ctrl-A x ends");
}

static void give_back_terminal(struct console *console)
{
    if (console->raw)
        (void)tcsetattr(console->in_fd, TCSANOW, &console->saved);
    console->raw = false;
}

/* Standard output through an open file of our own that does not block: O_NONBLOCK on the one that
 * we share would surprise its other users. A terminal calls itself writable when it takes a byte.
 */
static void open_stdout(struct console *console)
{
    struct stat info;

    console->out_fd = STDOUT_FILENO;
    if (fstat(STDOUT_FILENO, &info) || (!S_ISCHR(info.st_mode) && !S_ISFIFO(info.st_mode)))
        return;
    console->out_fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    console->owns_out = console->out_fd >= 0;
    if (console->out_fd < 0)
        console->out_fd = STDOUT_FILENO;
}

int console_open(struct console *console, const char *spec, struct loop *loop, struct error *err)
{
    memset(console, 0, sizeof(*console));
    console->in_fd = -1;
    console->out_fd = -1;
    console->loop = loop;
    if (strcmp(spec, "null") == 0)
        return 0;
    if (strcmp(spec, "stdio") == 0) {
        console->in_fd = STDIN_FILENO;
        open_stdout(console);
        return 0;
    }
    if (strncmp(spec, "file:", 5) == 0 && spec[5]) {
        console->out_fd = open(spec + 5, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC,
                               0666); /* a FIFO without a reader is an error, not a wait */
        if (console->out_fd < 0)
            return error_set(err, errno, "%s: %s", spec + 5, strerror(errno));
        console->owns_out = true;
        return 0;
    }
    return error_set(err, EINVAL, "'%s' is no console: write stdio, null or file:PATH", spec);
}

static void end_input(struct console *console)
{
    if (console->in_watched)
        loop_remove(console->loop, console->in_fd);
    console->in_watched = false;
    /* The descriptor is remembered for the terminal's settings. */
}

/* True where Ctrl-A x was typed. */
static bool wants_to_quit(struct console *console, const uint8_t *typed, size_t bytes)
{
    if (!console->raw)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (console->escape && typed[i] == 'x')
            return true;
        console->escape = typed[i] == CTRL_A && !console->escape;
    }
    return false;
}

static void give_input(struct console *console)
{
    console->input_given +=
        machine_console_give(console->machine, console->input + console->input_given,
                             console->input_bytes - console->input_given);
    if (console->input_given == console->input_bytes)
        console->input_bytes = console->input_given = 0;
}

/* How much to read: no more than the guest takes now. What it does not take stays where it is, for
 * whoever reads it next: the guest may move, and the process that it moves to may have the same
 * input. A terminal is read on even if the guest takes nothing, or Ctrl-A x would be lost: what
 * does not fit is dropped, as a UART would. */
static size_t readable(const struct console *console)
{
    size_t room;

    if (console->raw)
        return sizeof(console->input);
    room = console->input_bytes ? 0 : machine_console_room(console->machine);
    return room < sizeof(console->input) ? room : sizeof(console->input);
}

static void on_input(void *opaque, uint32_t events)
{
    struct console *console = opaque;
    uint8_t typed[sizeof(console->input)];
    size_t room;
    ssize_t got;

    (void)events;
    if (console->input_bytes)
        give_input(console);
    room = readable(console);
    if (!room) { /* the machine signals when there is some */
        end_input(console);
        return;
    }
    got = read(console->in_fd, typed, room);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        end_input(console);
        console->input_done = true;
        return;
    }
    if (wants_to_quit(console, typed, (size_t)got)) {
        loop_stop(console->loop);
        return;
    }
    room = sizeof(console->input) - console->input_bytes;
    room = (size_t)got < room ? (size_t)got : room;
    memcpy(console->input + console->input_bytes, typed, room);
    console->input_bytes += room;
    give_input(console);
}

/* A regular file is always ready, and epoll does not take it. */
static void read_file(struct console *console)
{
    while (!console->input_done && readable(console))
        on_input(console, EPOLLIN);
}

static void watch_input(struct console *console)
{
    if (console->in_fd < 0 || console->in_watched || console->input_done)
        return;
    if (loop_add(console->loop, console->in_fd, EPOLLIN, on_input, console) == 0)
        console->in_watched = true;
    else
        read_file(console);
}

static bool writable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLOUT};

    return poll(&one, 1, 0) == 1;
}

/* Waits for the reader; false where time ran out or give_up_fd became readable. */
static bool await_reader(const struct console *console, int timeout_ms, int give_up_fd)
{
    struct pollfd polls[2] = {{.fd = console->out_fd, .events = POLLOUT},
                              {.fd = give_up_fd, .events = POLLIN}};

    return poll(polls, 2, timeout_ms) > 0 && !polls[1].revents;
}

static void on_output(void *opaque, uint32_t events)
{
    struct console *console = opaque;

    (void)events;
    loop_remove(console->loop, console->out_fd);
    console->out_watched = false;
    console_pump(console);
}

/* Goes on when there is room again. */
static void watch_output(struct console *console)
{
    if (!console->out_watched &&
        loop_add(console->loop, console->out_fd, EPOLLOUT, on_output, console) == 0)
        console->out_watched = true;
}

/* One write of what waits; false where there is nothing, or where it must wait. */
static bool write_some(struct console *console)
{
    ssize_t put;

    if (console->output_done == console->output_bytes) {
        console->output_done = 0;
        console->output_bytes =
            machine_console_take(console->machine, console->output, sizeof(console->output));
        if (!console->output_bytes)
            return false;
    }
    if (console->out_fd < 0) {
        console->output_done = console->output_bytes;
        return true;
    }
    if (!writable(console->out_fd)) {
        watch_output(console);
        return false;
    }
    put = write(console->out_fd, console->output + console->output_done,
                console->output_bytes - console->output_done);
    if (put < 0 && errno == EAGAIN) {
        watch_output(console);
        return false;
    }
    if (put < 0 && errno != EINTR) {
        /* Nobody reads any more: the guest goes on. */
        log_warning("the console's output is gone: %s", strerror(errno));
        if (console->owns_out)
            (void)close(console->out_fd);
        console->out_fd = -1;
        return true;
    }
    if (put > 0)
        console->output_done += (size_t)put;
    return true;
}

void console_pump(struct console *console)
{
    if (!console->machine)
        return;
    while (write_some(console)) {
    }
    if (console->input_bytes)
        give_input(console);
    if (!console->input_bytes || console->raw)
        watch_input(console);
}

void console_attach(struct console *console, struct machine *machine)
{
    console->machine = machine;
    take_terminal(console);
    console_pump(console);
}

void console_end_input(struct console *console)
{
    size_t late = console->input_bytes - console->input_given;

    if (late && !console->raw && !console->input_done)
        log_warning("%zu bytes of input came too late: the guest had left", late);
    end_input(console);
    console->input_done = true;
    give_back_terminal(console);
}

void console_drain(struct console *console, int timeout_ms, int give_up_fd)
{
    if (!console->machine)
        return;
    for (;;) {
        while (write_some(console)) {
        }
        if (console->output_done == console->output_bytes ||
            !await_reader(console, timeout_ms, give_up_fd))
            return;
    }
}

void console_close(struct console *console)
{
    end_input(console);
    if (console->out_watched)
        loop_remove(console->loop, console->out_fd);
    console->out_watched = false;
    console->machine = NULL;
    give_back_terminal(console);
    if (console->owns_out && console->out_fd >= 0)
        (void)close(console->out_fd);
    console->out_fd = -1;
}
