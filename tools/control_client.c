/* SPDX-License-Identifier: MIT
 *
 * One client of the control socket: framing, answering, and never waiting for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/control_client.h"
#include "tools/json_text.h"

#define READ_BYTES 65536u

void control_client_drop(struct control_client *client)
{
    loop_remove(client->control->loop, client->fd);
    (void)close(client->fd);
    if (client->received_fd >= 0)
        (void)close(client->received_fd);
    for (unsigned i = 0; i < CONTROL_MAX_FDS; i++) {
        struct control_fd *kept = &client->control->fds[i];

        if (kept->fd >= 0 && kept->owner == client) {
            (void)close(kept->fd);
            kept->fd = -1;
        }
    }
    free(client->input);
    free(client->output);
    client->fd = -1;
}

/* Writes what the socket takes now. False where the client is gone. */
bool control_client_flush(struct control_client *client)
{
    while (client->output_bytes) {
        ssize_t put = send(client->fd, client->output, client->output_bytes, MSG_NOSIGNAL);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0) {
            control_client_drop(client);
            return false;
        }
        client->output_bytes -= (size_t)put;
        memmove(client->output, client->output + put, client->output_bytes);
    }
    if (client->closing && !client->output_bytes) {
        control_client_drop(client);
        return false;
    }
    loop_change(client->control->loop, client->fd,
                (client->closing ? 0 : (uint32_t)EPOLLIN) |
                    (client->output_bytes ? (uint32_t)EPOLLOUT : 0));
    return true;
}

/* Queues one message, taking the reference. A client that does not read is dropped, not waited for.
 */
void control_client_send(struct control_client *client, json_t *message)
{
    char *text = message && !client->closing ? json_dumps(message, JSON_COMPACT) : NULL;
    size_t length = text ? strlen(text) : 0;
    char *grown = text ? realloc(client->output, client->output_bytes + length + 2) : NULL;

    json_decref(message);
    if (client->closing)
        return; /* what it gets was decided before */
    if (!grown || client->output_bytes + length > CONTROL_MAX_OUTPUT) {
        client->output = grown ? grown : client->output;
        client->closing = true;
        client->output_bytes = 0;
    } else {
        client->output = grown;
        memcpy(grown + client->output_bytes, text, length);
        memcpy(grown + client->output_bytes + length, "\r\n", 2);
        client->output_bytes += length + 2;
    }
    free(text);
}

static json_t *error_reply(const char *class, const char *line)
{
    return json_pack("{s:{s:s, s:o}}", "error", "class", class, "desc", json_text(line));
}

static json_t *execute(struct control_client *client, const char *command, json_t *arguments)
{
    struct control *control = client->control;
    struct error err = {.text = ""};
    json_t *value;

    if (strcmp(command, "qmp_capabilities") == 0) {
        client->negotiated = true;
        return json_pack("{s:{}}", "return");
    }
    if (!client->negotiated)
        return error_reply("CommandNotFound", "expecting capabilities negotiation with "
                                              "'qmp_capabilities'");
    value = control->execute(control->opaque, client, command, arguments, &err);
    if (value)
        return json_pack("{s:o}", "return", value);
    return error_reply(strncmp(err.text, "there is no command", 19) == 0 ? "CommandNotFound"
                                                                         : "GenericError",
                       err.text);
}

static void handle_message(struct control_client *client, json_t *message)
{
    const char *command = json_string_value(json_object_get(message, "execute"));
    json_t *arguments = json_object_get(message, "arguments");
    json_t *id = json_object_get(message, "id");
    json_t *reply;

    if (!command)
        reply = error_reply("GenericError", "a message needs \"execute\" with a command's name");
    else if (arguments && !json_is_object(arguments))
        reply = error_reply("GenericError", "\"arguments\" must be an object");
    else
        reply = execute(client, command, arguments);
    if (id && reply)
        (void)json_object_set(reply, "id", id);
    control_client_send(client, reply);
}

static void handle_text(struct control_client *client, const char *text, size_t length)
{
    json_error_t error;
    json_t *message = json_loadb(text, length, 0, &error);

    if (message)
        handle_message(client, message);
    else
        control_client_send(client, error_reply("GenericError", "invalid JSON"));
    json_decref(message);
}

static size_t skip_blanks(const char *text, size_t length)
{
    size_t at = 0;

    while (at < length && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at;
}

/* Handles every complete message in the input. */
static void parse_input(struct control_client *client)
{
    size_t at = 0; /* where the message at hand begins */

    while (!client->closing) {
        size_t seen, used;
        bool complete;

        if (!client->input_seen)
            at += skip_blanks(client->input + at, client->input_bytes - at);
        seen = at + client->input_seen;
        complete = json_frame_feed(&client->frame, client->input + seen, client->input_bytes - seen,
                                   &used);
        client->input_seen += used;
        if (!complete)
            break;
        handle_text(client, client->input + at, client->input_seen);
        at += client->input_seen;
        client->input_seen = 0;
    }
    client->input_bytes -= at;
    memmove(client->input, client->input + at, client->input_bytes);
    if (client->input_bytes >= CONTROL_MAX_INPUT) {
        control_client_send(client, error_reply("GenericError", "the message is too long"));
        client->closing = true;
    }
}

/* Reads once, with a descriptor that may have come along. */
static ssize_t read_client(struct control_client *client)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary;
    struct iovec vector = {.iov_base = client->input + client->input_bytes, .iov_len = READ_BYTES};
    /* CMSG_LEN, not CMSG_SPACE: the padding would have room for a second descriptor, unseen. */
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = ancillary.bytes,
                             .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t got = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        if (client->received_fd >= 0)
            (void)close(client->received_fd);
        memcpy(&client->received_fd, CMSG_DATA(header), sizeof(int));
    }
    return got;
}

void control_client_serve(void *opaque, uint32_t events)
{
    struct control_client *client = opaque;

    if (client->closing && events & (EPOLLHUP | EPOLLERR)) {
        control_client_drop(client); /* nobody reads what it still would get */
        return;
    }
    if (!client->closing && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        char *grown = realloc(client->input, client->input_bytes + READ_BYTES);
        ssize_t got;

        if (!grown) {
            control_client_drop(client);
            return;
        }
        client->input = grown;
        got = read_client(client);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            control_client_drop(client);
            return;
        }
        if (got > 0) {
            client->input_bytes += (size_t)got;
            parse_input(client);
        }
    }
    (void)control_client_flush(client);
}
