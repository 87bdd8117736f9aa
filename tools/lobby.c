/* SPDX-License-Identifier: MIT */
#include "tools/lobby.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "migrate/wire.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"

/* How often one that has said a part is looked at again: its socket is readable all the time. */
#define LOOK_AGAIN_MS    20
#define LOOK_AT_CLOCK_MS 1000
/* Descriptors beside those that wait. */
#define FIXED 3

enum verdict { LOBBY_WAITS, LOBBY_SAID_A_PART, LOBBY_READY, LOBBY_GONE };

void lobby_init(struct lobby *lobby, uint64_t deadline_ns, int listen_fd)
{
    lobby->deadline_ns = deadline_ns;
    lobby->listen_fd = listen_fd;
    for (unsigned i = 0; i < LOBBY_PLACES; i++)
        lobby->place[i].fd = -1;
}

static void turn_away(struct lobby_place *place, const char *why)
{
    log_warning("a connection was turned away: %s", why);
    (void)close(place->fd);
    place->fd = -1;
}

static enum verdict look_at(struct lobby_place *place, uint64_t deadline_ns, short revents)
{
    uint8_t hello[WIRE_HELLO_BYTES];
    ssize_t got = recv(place->fd, hello, sizeof(hello), MSG_PEEK | MSG_DONTWAIT);

    if (got == (ssize_t)sizeof(hello))
        return LOBBY_READY; /* whatever it is: the engine says what is wrong with it */
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (clock_now_ns() - place->since_ns < deadline_ns)
            return LOBBY_WAITS;
        turn_away(place, "it said nothing");
        return LOBBY_GONE;
    }
    if (got <= 0 || (revents & (POLLRDHUP | POLLHUP | POLLERR))) {
        turn_away(place, "it closed before it had said HELLO");
        return LOBBY_GONE;
    }
    if (clock_now_ns() - place->since_ns < deadline_ns)
        return LOBBY_SAID_A_PART;
    turn_away(place, "it took too long to say HELLO");
    return LOBBY_GONE;
}

/* Takes one connection in; the one that has waited longest makes room. */
static int let_in(struct lobby *lobby)
{
    struct lobby_place *best = &lobby->place[0];
    int fd = accept4(lobby->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        bool fatal = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EBADF;

        return fatal ? -errno : 0;
    }
    for (unsigned i = 0; i < LOBBY_PLACES && best->fd >= 0; i++) {
        struct lobby_place *place = &lobby->place[i];

        if (place->fd < 0 || place->since_ns < best->since_ns)
            best = place;
    }
    if (best->fd >= 0)
        turn_away(best, "too many wait");
    *best = (struct lobby_place){.fd = fd, .since_ns = clock_now_ns()};
    return 0;
}

int lobby_next(struct lobby *lobby, const struct lobby_limits *limits)
{
    bool part[LOBBY_PLACES] = {false};

    for (;;) {
        struct pollfd polls[LOBBY_PLACES + FIXED] = {
            {.fd = lobby->listen_fd, .events = POLLIN},
            {.fd = limits->cancel_fd, .events = POLLIN},
            {.fd = limits->watch_fd, .events = POLLIN | POLLRDHUP}};
        int timeout_ms = limits->until_ns ? LOOK_AT_CLOCK_MS : -1;

        for (unsigned i = 0; i < LOBBY_PLACES; i++) {
            polls[FIXED + i].fd = lobby->place[i].fd; /* poll passes over -1 */
            polls[FIXED + i].events = part[i] ? POLLRDHUP : POLLIN | POLLRDHUP;
            if (lobby->place[i].fd >= 0)
                timeout_ms =
                    part[i] || timeout_ms == LOOK_AGAIN_MS ? LOOK_AGAIN_MS : LOOK_AT_CLOCK_MS;
        }
        if (poll(polls, LOBBY_PLACES + FIXED, timeout_ms) < 0 && errno != EINTR)
            return -errno;
        if (polls[1].revents)
            return -ECANCELED;
        if (polls[2].revents)
            return -ECONNRESET;
        if (limits->until_ns && clock_now_ns() >= limits->until_ns)
            return -ETIMEDOUT;
        for (unsigned i = 0; i < LOBBY_PLACES; i++) {
            struct lobby_place *place = &lobby->place[i];
            enum verdict verdict =
                place->fd < 0 ? LOBBY_GONE
                              : look_at(place, lobby->deadline_ns, polls[FIXED + i].revents);

            part[i] = verdict == LOBBY_SAID_A_PART;
            if (verdict == LOBBY_READY) {
                int fd = place->fd;

                place->fd = -1;
                return fd;
            }
        }
        if (polls[0].revents) {
            int rc = let_in(lobby);

            if (rc)
                return rc;
        }
    }
}

void lobby_close(struct lobby *lobby)
{
    for (unsigned i = 0; i < LOBBY_PLACES; i++) {
        if (lobby->place[i].fd >= 0)
            (void)close(lobby->place[i].fd);
        lobby->place[i].fd = -1;
    }
}
