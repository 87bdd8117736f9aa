/* SPDX-License-Identifier: MIT */
#include "tools/qmp_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/uri.h"
#include "vmm/base/clock.h"

#define READ_BYTES 65536u
#define MAX_INPUT  (16u << 20)
#define ANSWER_MS  30000

/* Reads more input; 0, -ETIMEDOUT, or -ECONNRESET. */
static int read_more(struct qmp_client *client, int timeout_ms, struct error *err)
{
    struct pollfd one = {.fd = client->fd, .events = POLLIN};
    char *grown;
    ssize_t got;

    do {
        got = poll(&one, 1, timeout_ms);
    } while (got < 0 && errno == EINTR && timeout_ms == ANSWER_MS);
    if (got <= 0)
        return error_set(err, ETIMEDOUT, "the control socket does not answer");
    if (client->input_bytes > MAX_INPUT)
        return error_set(err, EPROTO, "the control socket sent a message that is too long");
    grown = realloc(client->input, client->input_bytes + READ_BYTES);
    if (!grown)
        return error_set(err, ENOMEM, "no memory for an answer");
    client->input = grown;
    do {
        got = recv(client->fd, grown + client->input_bytes, READ_BYTES, 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return error_set(err, ECONNRESET, "the control socket was closed: the process has ended");
    client->input_bytes += (size_t)got;
    return 0;
}

/* The next whole message in the input, or NULL. */
static json_t *next_message(struct qmp_client *client)
{
    const char *newline =
        client->input_bytes ? memchr(client->input, '\n', client->input_bytes) : NULL;
    json_t *message;
    size_t length;

    if (!newline)
        return NULL;
    length = (size_t)(newline - client->input) + 1;
    message = json_loadb(client->input, length, 0, NULL);
    client->input_bytes -= length;
    memmove(client->input, client->input + length, client->input_bytes);
    return message ? message : json_null();
}

static bool is_event(struct qmp_client *client, json_t *message)
{
    if (!json_object_get(message, "event"))
        return false;
    if (client->on_event)
        client->on_event(client->opaque, message);
    return true;
}

static int send_text(const struct qmp_client *client, const char *text, size_t length, int send_fd,
                     struct error *err)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary;
    size_t done = 0;

    memset(&ancillary, 0, sizeof(ancillary));
    while (done < length) {
        struct iovec vector = {.iov_base = (char *)(uintptr_t)text + done,
                               .iov_len = length - done};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
        ssize_t put;

        if (send_fd >= 0 && done == 0) {
            message.msg_control = ancillary.bytes;
            message.msg_controllen = sizeof(ancillary.bytes);
            ancillary.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                                .cmsg_type = SCM_RIGHTS,
                                                .cmsg_len = CMSG_LEN(sizeof(int))};
            memcpy(CMSG_DATA(&ancillary.header), &send_fd, sizeof(int));
        }
        put = sendmsg(client->fd, &message, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return error_set(err, errno == EPIPE ? ECONNRESET : errno, "the control socket: %s",
                             strerror(errno));
        done += (size_t)put;
    }
    return 0;
}

static int await_answer(struct qmp_client *client, json_t **value, struct error *err)
{
    for (;;) {
        json_t *message = next_message(client);
        json_t *error, *result;
        int rc = 0;

        if (!message) {
            rc = read_more(client, ANSWER_MS, err);
            if (rc)
                return rc;
            continue;
        }
        if (is_event(client, message)) {
            json_decref(message);
            continue;
        }
        error = json_object_get(message, "error");
        result = json_object_get(message, "return");
        if (error) {
            const char *line = json_string_value(json_object_get(error, "desc"));

            rc = error_set(err, EREMOTEIO, "%s", line ? line : "refused without a reason");
        } else if (!result) {
            rc = error_set(err, EPROTO, "the control socket sent something that is no answer");
        } else if (value) {
            *value = json_incref(result);
        }
        json_decref(message);
        return rc;
    }
}

int qmp_client_command(struct qmp_client *client, const char *name, json_t *arguments, int send_fd,
                       json_t **value, struct error *err)
{
    json_t *message = json_pack("{s:s}", "execute", name);
    char *text;
    size_t length;
    int rc;

    if (arguments)
        (void)json_object_set_new(message, "arguments", arguments);
    text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    if (!text)
        return error_set(err, EINVAL, "the command is no valid text");
    /* The newline takes the terminator's place: one send, since a process that quits reads no
     * second. */
    length = strlen(text);
    text[length] = '\n';
    rc = send_text(client, text, length + 1, send_fd, err);
    free(text);
    return rc ? rc : await_answer(client, value, err);
}

int qmp_client_open(struct qmp_client *client, const char *path, struct error *err)
{
    struct uri uri = {.kind = URI_UNIX};
    json_t *greeting = NULL;
    int rc;

    memset(client, 0, sizeof(*client));
    client->fd = -1;
    if (strlen(path) >= sizeof(uri.rest))
        return error_set(err, ENAMETOOLONG, "--control: the path is too long");
    memcpy(uri.rest, path, strlen(path) + 1);
    rc = uri_connect(&uri, CLOCK_NS_PER_SEC, -1, &client->fd, err);
    if (rc) {
        error_prefix(err, "is pageferry running with --control %s?", path);
        return rc;
    }
    while (!rc && !(greeting = next_message(client)))
        rc = read_more(client, ANSWER_MS, err);
    if (!rc && !json_object_get(greeting, "QMP"))
        rc = error_set(err, EPROTO, "%s is no QMP control socket", path);
    json_decref(greeting);
    if (!rc)
        rc = qmp_client_command(client, "qmp_capabilities", NULL, -1, NULL, err);
    if (rc)
        qmp_client_close(client);
    return rc;
}

void qmp_client_close(struct qmp_client *client)
{
    if (client->fd >= 0)
        (void)close(client->fd);
    free(client->input);
    client->fd = -1;
    client->input = NULL;
}

int qmp_client_wait(struct qmp_client *client, int timeout_ms, struct error *err)
{
    json_t *message = next_message(client);
    int rc;

    if (!message) { /* else an answer's read brought it along */
        rc = read_more(client, timeout_ms, err);
        if (rc)
            return rc == -ETIMEDOUT ? 0 : rc;
        message = next_message(client);
    }
    for (; message; message = next_message(client)) {
        (void)is_event(client, message);
        json_decref(message);
    }
    return 0;
}
