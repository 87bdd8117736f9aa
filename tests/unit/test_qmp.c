/* SPDX-License-Identifier: MIT
 *
 * The control socket without a guest: framing, negotiation, ids, hostile and slow clients. The
 * server's loop runs in a thread of its own; the test is its client. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/control.h"
#include "tools/uri.h"

#define DEADLINE_NS (10ull * 1000 * 1000 * 1000)
#define DEADLINE_MS 10000
#define NEGOTIATE   "{\"execute\":\"qmp_capabilities\"}"

struct fixture {
    char directory[32], path[64];
    struct loop loop;
    struct control control;
    pthread_t thread;
};

struct client {
    int fd;
    char input[1 << 16];
    size_t bytes;
};

/* echo: returns its arguments. event: raises one. fd: the length of what the descriptor holds. */
static json_t *execute(void *opaque, struct control_client *client, const char *command,
                       json_t *arguments, struct error *err)
{
    struct fixture *f = opaque;
    char data[64];
    ssize_t got;
    int fd;

    if (strcmp(command, "echo") == 0)
        return arguments ? json_incref(arguments) : json_object();
    if (strcmp(command, "big") == 0) {
        char *text = calloc(1, 1 << 18);
        json_t *value;

        memset(text, 'x', (1 << 18) - 1);
        value = json_pack("{s:s}", "text", text);
        free(text);
        return value;
    }
    if (strcmp(command, "event") == 0) {
        control_event(&f->control, "TOLD", json_pack("{s:i}", "n", 1));
        return json_object();
    }
    if (strcmp(command, "keep") == 0)
        return control_keep_fd(&f->control, client, "one", err) ? NULL : json_object();
    if (strcmp(command, "read") == 0) {
        fd = control_take_fd(&f->control, "one");
        got = fd < 0 ? -1 : read(fd, data, sizeof(data));
        if (fd >= 0)
            (void)close(fd);
        return json_pack("{s:i}", "got", (int)got);
    }
    if (strcmp(command, "end") == 0) {
        loop_stop(&f->loop);
        return json_object();
    }
    (void)error_set(err, ENOENT, "there is no command %.100s", command);
    return NULL;
}

static void *serve(void *opaque)
{
    struct fixture *f = opaque;
    struct error err = {""};

    assert_int_equal(loop_run(&f->loop, &err), 0);
    return NULL;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct error err = {""};

    assert_non_null(f);
    (void)strcpy(f->directory, "/tmp/pageferry-test.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->path, sizeof(f->path), "%s/s", f->directory);
    assert_int_equal(loop_init(&f->loop, &err), 0);
    assert_int_equal(control_open(&f->control, f->path, &f->loop, execute, f, &err), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
    *state = f;
    return 0;
}

static void client_open(struct client *client, const struct fixture *f)
{
    struct error err = {""};
    struct uri uri = {.kind = URI_UNIX};

    memset(client, 0, sizeof(*client));
    (void)strcpy(uri.rest, f->path);
    assert_int_equal(uri_connect(&uri, DEADLINE_NS, -1, &client->fd, &err), 0);
}

static void client_close(struct client *client)
{
    assert_int_equal(close(client->fd), 0);
}

static void say(struct client *client, const char *text)
{
    size_t left = strlen(text);

    while (left) {
        struct pollfd one = {.fd = client->fd, .events = POLLOUT};
        ssize_t put;

        assert_int_equal(poll(&one, 1, DEADLINE_MS), 1);
        put = send(client->fd, text, left, MSG_NOSIGNAL);
        if (put < 0 && errno == EAGAIN)
            continue;
        assert_true(put > 0);
        text += put;
        left -= (size_t)put;
    }
}

/* The next message, or NULL where the server has hung up. */
static json_t *hear(struct client *client)
{
    for (;;) {
        char *end = memchr(client->input, '\n', client->bytes);
        struct pollfd one = {.fd = client->fd, .events = POLLIN};
        ssize_t got;

        if (end) {
            size_t length = (size_t)(end - client->input) + 1;
            json_t *message = json_loadb(client->input, length, 0, NULL);

            assert_non_null(message);
            client->bytes -= length;
            memmove(client->input, client->input + length, client->bytes);
            return message;
        }
        assert_true(client->bytes < sizeof(client->input));
        assert_int_equal(poll(&one, 1, DEADLINE_MS), 1);
        got = recv(client->fd, client->input + client->bytes, sizeof(client->input) - client->bytes,
                   0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return NULL;
        if (got > 0)
            client->bytes += (size_t)got;
    }
}

static void hear_member(struct client *client, const char *member)
{
    json_t *message = hear(client);

    assert_non_null(message);
    assert_non_null(json_object_get(message, member));
    json_decref(message);
}

/* An error of that class, with a line. */
static void hear_error(struct client *client, const char *error_class)
{
    json_t *message = hear(client);
    json_t *error = json_object_get(message, "error");

    assert_non_null(error);
    assert_string_equal(json_string_value(json_object_get(error, "class")), error_class);
    assert_true(json_string_length(json_object_get(error, "desc")) > 0);
    json_decref(message);
}

static void negotiate(struct client *client)
{
    hear_member(client, "QMP");
    say(client, NEGOTIATE "\n");
    hear_member(client, "return");
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct client client;

    client_open(&client, f);
    negotiate(&client);
    say(&client, "{\"execute\":\"end\"}");
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    control_close(&f->control);
    loop_destroy(&f->loop);
    client_close(&client);
    assert_int_equal(access(f->path, F_OK), -1);
    assert_int_equal(rmdir(f->directory), 0);
    free(f);
    return 0;
}

static void negotiates_first(void **state)
{
    struct client client;

    client_open(&client, *state);
    hear_member(&client, "QMP");
    say(&client, "{\"execute\":\"echo\"}\n");
    hear_error(&client, "CommandNotFound");
    say(&client, NEGOTIATE);
    hear_member(&client, "return");
    say(&client, "{\"execute\":\"echo\"}");
    hear_member(&client, "return");
    client_close(&client);
}

/* Messages joined, split at every byte, over several lines, with brackets in strings. */
static void frames(void **state)
{
    static const char one[] =
        "{\"execute\" :\n\t\"echo\", \"arguments\":{\"a\":\"}{][\\\"\\\\\", \"b\":[1,{}]},\r\n "
        "\"id\":{\"deep\":[null]}}";
    struct client client;

    client_open(&client, *state);
    negotiate(&client);
    say(&client, "{\"execute\":\"echo\",\"id\":1}{\"execute\":\"echo\",\"id\":2} \n\n "
                 "{\"execute\":\"echo\",\"id\":3}");
    for (int id = 1; id <= 3; id++) {
        json_t *message = hear(&client);

        assert_int_equal(json_integer_value(json_object_get(message, "id")), id);
        json_decref(message);
    }
    for (size_t i = 0; i < sizeof(one) - 1; i++)
        say(&client, (char[]){one[i], '\0'});
    {
        json_t *message = hear(&client);
        json_t *wanted = json_loads("{\"return\":{\"a\":\"}{][\\\"\\\\\",\"b\":[1,{}]},"
                                    "\"id\":{\"deep\":[null]}}",
                                    0, NULL);

        assert_true(json_equal(message, wanted));
        json_decref(message);
        json_decref(wanted);
    }
    client_close(&client);
}

/* Whatever is wrong gets one answer, with its id where it has one, and the next command works. */
static void answers_nonsense(void **state)
{
    static const char *const nonsense[] = {
        "hello\n",
        "}\n",
        "[]\n",
        "17\n",
        "{}\n",
        "{\"execute\":7}\n",
        "{\"execute\":\"echo\",\"arguments\":[]}\n",
        "{\"execute\":\"echo\",,}\n",
        "{\"execute\":\"ec\nho\"}\n",
        "\xff\xfe\n",
        "{\"execute\":\"\\ud800\"}\n",
    };
    struct client client;

    client_open(&client, *state);
    negotiate(&client);
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        json_t *message;
        bool more = true;

        say(&client, nonsense[i]);
        say(&client, "{\"execute\":\"echo\",\"id\":\"after\"}\n");
        hear_error(&client, "GenericError");
        while (more) { /* what follows a mistake on its line may be one more */
            message = hear(&client);
            assert_non_null(message);
            more = !json_object_get(message, "return");
            json_decref(message);
        }
    }
    client_close(&client);
}

/* The line quotes the name; a name cut in the middle of a character is no reason to hang up. */
static void unknown_commands(void **state)
{
    struct client client;
    char text[256];
    char name[128];

    client_open(&client, *state);
    negotiate(&client);
    for (size_t length = 97; length <= 101; length++) {
        memset(name, 'n', length);
        (void)strcpy(name + length, "\xe2\x82\xac");
        (void)snprintf(text, sizeof(text), "{\"execute\":\"%s\",\"id\":5}\n", name);
        say(&client, text);
        hear_error(&client, "CommandNotFound");
    }
    client_close(&client);
}

static void drops_who_sends_too_much(void **state)
{
    struct client loud, other;
    char *flood = malloc(1 << 16);
    json_t *message = NULL;
    ssize_t put = 1;

    assert_non_null(flood);
    memset(flood, '[', 1 << 16);
    client_open(&other, *state);
    negotiate(&other);
    client_open(&loud, *state);
    negotiate(&loud);
    say(&loud, "{\"execute\":\"echo\",\"arguments\":{\"a\":\"");
    memset(flood, 'a', 1 << 16);
    for (size_t sent = 0; put > 0 && sent < 4 * CONTROL_MAX_INPUT; sent += (size_t)put) {
        struct pollfd one = {.fd = loud.fd, .events = POLLOUT};

        assert_int_equal(poll(&one, 1, DEADLINE_MS), 1);
        put = send(loud.fd, flood, 1 << 16, MSG_NOSIGNAL);
        if (put < 0 && errno == EAGAIN)
            put = 1;
    }
    do {
        json_decref(message);
        message = hear(&loud);
    } while (message);
    say(&other, "{\"execute\":\"echo\"}");
    hear_member(&other, "return");
    client_close(&loud);
    client_close(&other);
    free(flood);
}

/* Answers that nobody reads are kept up to a limit; nobody waits for the reader. */
static void drops_who_never_reads(void **state)
{
    struct client silent, other;
    bool dropped = false;

    client_open(&silent, *state);
    negotiate(&silent);
    client_open(&other, *state);
    negotiate(&other);
    for (size_t i = 0; i < 4 * CONTROL_MAX_OUTPUT / (1 << 18) && !dropped; i++) {
        dropped = send(silent.fd, "{\"execute\":\"big\"}", 17, MSG_NOSIGNAL) < 0;
        say(&other, "{\"execute\":\"echo\"}");
        hear_member(&other, "return");
    }
    assert_true(dropped);
    client_close(&silent);
    client_close(&other);
}

static void events_reach_everybody(void **state)
{
    struct client first, second, stranger;

    client_open(&first, *state);
    negotiate(&first);
    client_open(&second, *state);
    negotiate(&second);
    client_open(&stranger, *state);
    hear_member(&stranger, "QMP");
    say(&first, "{\"execute\":\"event\"}");
    for (struct client *client = &first;; client = &second) {
        json_t *message = hear(client);
        json_t *when = json_object_get(message, "timestamp");

        if (!json_object_get(message, "event")) { /* its order to the answer is open */
            json_decref(message);
            message = hear(client);
            when = json_object_get(message, "timestamp");
        }
        assert_string_equal(json_string_value(json_object_get(message, "event")), "TOLD");
        assert_true(json_integer_value(json_object_get(when, "seconds")) > 1000000000);
        assert_non_null(json_object_get(when, "microseconds"));
        json_decref(message);
        if (client == &second)
            break;
    }
    /* Not negotiated: the next that it hears is its own answer. */
    say(&stranger, NEGOTIATE);
    hear_member(&stranger, "return");
    client_close(&first);
    client_close(&second);
    client_close(&stranger);
}

static void turns_away_one_too_many(void **state)
{
    struct client *clients = calloc(CONTROL_MAX_CLIENTS + 1, sizeof(*clients));

    assert_non_null(clients);
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        client_open(&clients[i], *state);
        negotiate(&clients[i]);
    }
    client_open(&clients[CONTROL_MAX_CLIENTS], *state);
    assert_null(hear(&clients[CONTROL_MAX_CLIENTS]));
    for (unsigned i = 0; i <= CONTROL_MAX_CLIENTS; i++)
        client_close(&clients[i]);
    /* The places are free again as soon as the server has seen the clients go. */
    for (bool welcome = false; !welcome;) {
        json_t *greeting;

        client_open(&clients[0], *state);
        greeting = hear(&clients[0]);
        welcome = greeting != NULL;
        json_decref(greeting);
        client_close(&clients[0]);
    }
    free(clients);
}

/* A descriptor arrives with a message and is kept under a name. */
static void passes_descriptors(void **state)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary = {.header = {.cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS,
                              .cmsg_len = CMSG_LEN(sizeof(int))}};
    char text[] = "{\"execute\":\"keep\"}";
    struct iovec vector = {.iov_base = text, .iov_len = sizeof(text) - 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = ancillary.bytes,
                             .msg_controllen = sizeof(ancillary.bytes)};
    struct client client;
    json_t *answer;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "12345", 5), 5);
    client_open(&client, *state);
    negotiate(&client);
    say(&client, "{\"execute\":\"keep\"}");
    hear_error(&client, "GenericError"); /* none came */
    memcpy(CMSG_DATA(&ancillary.header), &ends[0], sizeof(int));
    assert_int_equal(sendmsg(client.fd, &message, MSG_NOSIGNAL), (ssize_t)vector.iov_len);
    hear_member(&client, "return");
    assert_int_equal(close(ends[0]), 0);
    say(&client, "{\"execute\":\"read\"}");
    answer = hear(&client);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(answer, "return"), "got")),
                     5);
    json_decref(answer);
    assert_int_equal(close(ends[1]), 0);
    client_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(negotiates_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_nonsense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_commands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(drops_who_sends_too_much, set_up, tear_down),
        cmocka_unit_test_setup_teardown(drops_who_never_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(events_reach_everybody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(turns_away_one_too_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(passes_descriptors, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
