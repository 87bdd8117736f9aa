/* SPDX-License-Identifier: MIT */
#include "tools/answering.h"

#include <sys/socket.h>

#include "migrate/query.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"

bool answering_peek(int fd, struct wire_hello *hello)
{
    uint8_t bytes[WIRE_HELLO_BYTES];
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    return got == (ssize_t)sizeof(bytes) &&
           wire_get_hello(bytes, WIRE_ROLE_SOURCE, hello, NULL) == 0;
}

static bool serve(int fd, const struct channel_options *options, const uint8_t *session,
                  enum wire_answer answer, const char *reason)
{
    struct error err = {.text = ""};
    struct channel *channel;
    bool asked = false;
    int rc = channel_open(&channel, fd, fd, options, &err);

    if (!rc) {
        rc = query_serve(channel, session, answer, reason, &asked, &err);
        channel_close(channel);
    }
    if (rc)
        log_warning("a connection was turned away: %s", err.text);
    else
        log_info("a source asked what became of its guest: %s",
                 !asked                          ? "its migration is not known here"
                 : answer == WIRE_ANSWER_RUNNING ? "it was taken over here"
                                                 : "it was discarded here");
    return asked;
}

void answering_unknown(int fd, const struct channel_options *options)
{
    (void)serve(fd, options, NULL, WIRE_ANSWER_UNKNOWN, "");
}

void answering_linger(struct lobby *lobby, const struct channel_options *options,
                      const uint8_t *session, enum handover_destination owner, uint64_t for_ns)
{
    bool taken =
        handover_destination_step(&owner, HANDOVER_EVENT_ASKED) == HANDOVER_DO_ANSWER_RUNNING;
    struct lobby_limits limits = {
        .cancel_fd = options->cancel_fd, .watch_fd = -1, .until_ns = clock_now_ns() + for_ns};

    for (;;) {
        int fd = lobby_next(lobby, &limits);
        bool asked;

        if (fd < 0)
            return;
        asked = serve(fd, options, session, taken ? WIRE_ANSWER_RUNNING : WIRE_ANSWER_DISCARDED,
                      taken ? "a guest is here already: no second one is taken"
                            : "a migration to here has failed: no other guest is taken");
        if (asked && !taken && clock_now_ns() + options->deadline_ns < limits.until_ns)
            limits.until_ns = clock_now_ns() + options->deadline_ns;
    }
}
