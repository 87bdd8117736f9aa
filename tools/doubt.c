/* SPDX-License-Identifier: MIT */
#include "tools/doubt.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "migrate/query.h"
#include "vmm/base/clock.h"

/* The control thread waits for it, connecting and answering each, and so does the user. */
#define ASK_LIMIT_NS (10 * CLOCK_NS_PER_SEC)

int doubt_init(struct doubt *doubt, struct error *err)
{
    memset(doubt, 0, sizeof(*doubt));
    doubt->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    doubt->heard_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return doubt->stop_fd < 0 || doubt->heard_fd < 0
               ? error_set(err, errno, "eventfd: %s", strerror(errno))
               : 0;
}

static bool receive_running(struct doubt *doubt)
{
    struct record *record = malloc(sizeof(*record));
    struct error ignored;
    bool heard = record && record_expect(&doubt->of.link, WIRE_RUNNING, doubt->of.round, record,
                                         &ignored) == 0;

    free(record);
    return heard;
}

static void *listen_main(void *opaque)
{
    struct doubt *doubt = opaque;
    struct pollfd polls[2] = {{.fd = channel_fd(doubt->channel), .events = POLLIN},
                              {.fd = doubt->stop_fd, .events = POLLIN}};
    uint64_t one = 1;

    while (poll(polls, 2, -1) < 0 && errno == EINTR) {
    }
    if (polls[1].revents)
        return NULL;
    doubt->heard = receive_running(doubt);
    (void)!write(doubt->heard_fd, &one, sizeof(one));
    return NULL;
}

static void drop_channel(struct doubt *doubt)
{
    channel_close(doubt->channel);
    doubt->channel = NULL;
}

void doubt_listen(struct doubt *doubt)
{
    if (!doubt->channel || doubt->listening)
        return;
    doubt->listening = pthread_create(&doubt->thread, NULL, listen_main, doubt) == 0;
    if (!doubt->listening)
        drop_channel(doubt); /* asking is still possible */
}

void doubt_begin(struct doubt *doubt, struct channel *channel, const struct channel_options *link)
{
    doubt->channel = channel;
    doubt->link = *link;
    doubt->heard = false;
    doubt_listen(doubt);
}

bool doubt_stop_listening(struct doubt *doubt)
{
    uint64_t count = 1;

    if (!doubt->listening)
        return doubt->heard;
    (void)!write(doubt->stop_fd, &count, sizeof(count));
    (void)pthread_join(doubt->thread, NULL);
    doubt->listening = false;
    (void)!read(doubt->stop_fd, &count, sizeof(count));
    /* Woken by the channel: it has said all that it will say. */
    if (read(doubt->heard_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
        drop_channel(doubt);
    return doubt->heard;
}

int doubt_ask(const struct doubt *doubt, const struct uri *uri, enum wire_answer *answer,
              struct error *err)
{
    struct channel_options link = doubt->link;
    struct channel *channel;
    int fd = -1;
    int rc;

    if (link.deadline_ns > ASK_LIMIT_NS)
        link.deadline_ns = ASK_LIMIT_NS;
    if (uri->kind != URI_TCP && uri->kind != URI_UNIX)
        return error_set(err, EOPNOTSUPP, "an address of this kind cannot be asked");
    rc = uri_connect(uri, link.deadline_ns, -1, &fd, err);
    if (!rc)
        rc = channel_open(&channel, fd, fd, &link, err);
    if (rc)
        return rc;
    rc = query_ask(channel, doubt->of.session, answer, err);
    channel_close(channel);
    return rc;
}

void doubt_end(struct doubt *doubt)
{
    (void)doubt_stop_listening(doubt);
    drop_channel(doubt);
}

void doubt_destroy(struct doubt *doubt)
{
    doubt_end(doubt);
    if (doubt->stop_fd >= 0)
        (void)close(doubt->stop_fd);
    if (doubt->heard_fd >= 0)
        (void)close(doubt->heard_fd);
}
