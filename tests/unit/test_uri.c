/* SPDX-License-Identifier: MIT
 *
 * Migration addresses: what is taken, what is refused with the accepted form, and sockets that
 * nobody listens on, or that are already there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/uri.h"

#define DEADLINE_NS (10ull * 1000 * 1000 * 1000)

static void parses_tcp(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } good[] = {
        {"tcp:example.org:4444", "example.org", "4444"},
        {"tcp:10.0.0.1:1", "10.0.0.1", "1"},
        {"tcp:[::1]:65535", "::1", "65535"},
        {"tcp:[fe80::1%eth0]:7", "fe80::1%eth0", "7"},
        {"tcp::4444", "127.0.0.1", "4444"},
        {"tcp:4444", "127.0.0.1", "4444"},
        {"tcp:0", "127.0.0.1", "0"},
        {"tcp:h:0x10", "h", "16"},
    };
    struct uri uri;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(uri_parse(good[i].text, &uri, NULL), 0);
        assert_int_equal(uri.kind, URI_TCP);
        assert_string_equal(uri.host, good[i].host);
        assert_string_equal(uri.port, good[i].port);
    }
}

static void parses_the_others(void **state)
{
    static const struct {
        const char *text, *rest;
        enum uri_kind kind;
    } good[] = {
        {"unix:/run/x.sock", "/run/x.sock", URI_UNIX},
        {"unix:a:b", "a:b", URI_UNIX},
        {"exec:ssh hostB pageferry receive --stdio", "ssh hostB pageferry receive --stdio",
         URI_EXEC},
        {"fd:7", "7", URI_FD},
        {"fd:name", "name", URI_FD},
    };
    struct uri uri;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(uri_parse(good[i].text, &uri, NULL), 0);
        assert_int_equal(uri.kind, good[i].kind);
        assert_string_equal(uri.rest, good[i].rest);
    }
}

/* Every refusal says what would have been right. */
static void refuses(void **state)
{
    static const struct {
        const char *text, *line;
    } bad[] = {
        {"", "tcp:HOST:PORT"},
        {"somewhere", "tcp:HOST:PORT"},
        {"TCP:h:1", "tcp:HOST:PORT"},
        {"tcp:", "tcp:HOST:PORT"},
        {"unix:", "unix:PATH"},
        {"exec:", "exec:COMMAND"},
        {"fd:", "fd:N"},
        {"tcp:host", "port"},
        {"tcp:host:", "port"},
        {"tcp:host:65536", "port"},
        {"tcp:host:-1", "port"},
        {"tcp:host:http", "port"},
        {"tcp:host:1 ", "port"},
        {"tcp:::1:4444", "tcp:[ADDRESS]:PORT"},
        {"tcp:[::1]", "tcp:[ADDRESS]:PORT"},
    };
    struct uri uri;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {""};

        assert_int_equal(uri_parse(bad[i].text, &uri, &err), -EINVAL);
        assert_non_null(strstr(err.text, bad[i].line));
        assert_null(strchr(err.text, '\n'));
    }
}

static void refuses_what_is_too_long(void **state)
{
    char text[URI_MAX_BYTES + 16];
    struct uri uri;

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "exec:", 5);
    text[URI_MAX_BYTES] = '\0';
    assert_int_equal(uri_parse(text, &uri, NULL), -EINVAL);
    text[URI_MAX_BYTES - 1] = '\0';
    assert_int_equal(uri_parse(text, &uri, NULL), 0);
    memcpy(text, "tcp:", 4);
    memcpy(text + 4 + sizeof(uri.host), ":1", 3);
    assert_int_equal(uri_parse(text, &uri, NULL), -EINVAL);
}

/* Listens at `text`, connects to what was chosen. */
static void connect_to_listener(const char *text)
{
    char chosen[URI_MAX_BYTES];
    struct error err = {""};
    struct uri uri, nowhere;
    int listener = -1, fd = -1, again = -1;

    assert_int_equal(uri_parse(text, &uri, &err), 0);
    assert_int_equal(uri_listen(&uri, &listener, chosen, &err), 0);
    assert_int_equal(uri_parse(chosen, &uri, &err), 0);
    assert_int_equal(uri_connect(&uri, DEADLINE_NS, -1, &fd, &err), 0);
    assert_int_equal(uri_parse("tcp:no-such-host.invalid:1", &nowhere, &err), 0);
    assert_int_equal(uri_connect_again(&nowhere, fd, DEADLINE_NS, -1, &again, &err), 0);
    assert_int_equal(close(again), 0);
    assert_int_equal(close(listener), 0);
    assert_true(uri_connect_again(&uri, fd, DEADLINE_NS, -1, &again, &err) < 0);
    assert_int_equal(close(fd), 0);
    if (uri.kind == URI_TCP) {
        assert_int_equal(uri_connect(&uri, DEADLINE_NS, -1, &fd, &err), -ECONNREFUSED);
        assert_non_null(strstr(err.text, uri.port));
    }
}

static void connects(void **state)
{
    char directory[] = "/tmp/pageferry-test.XXXXXX";
    char text[64];

    (void)state;
    connect_to_listener("tcp:0");
    connect_to_listener("tcp:localhost:0");
    assert_non_null(mkdtemp(directory));
    (void)snprintf(text, sizeof(text), "unix:%s/s", directory);
    connect_to_listener(text);
    (void)unlink(text + strlen("unix:"));
    assert_int_equal(rmdir(directory), 0);
}

static void a_name_that_is_none(void **state)
{
    struct error err = {""};
    struct uri uri;
    int fd = -1;

    (void)state;
    assert_int_equal(uri_parse("tcp:no-such-host.invalid:1", &uri, &err), 0);
    assert_true(uri_connect(&uri, DEADLINE_NS, -1, &fd, &err) < 0);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
}

/* A listener whose queue is full lets nobody in: only the deadline or a cancellation ends that. */
static void connecting_can_be_given_up(void **state)
{
    char chosen[URI_MAX_BYTES];
    struct error err = {""};
    struct uri uri;
    int cancel = eventfd(1, EFD_CLOEXEC);
    int listener = -1, fds[64], count = 0, rc = 0;

    (void)state;
    assert_true(cancel >= 0);
    assert_int_equal(uri_parse("tcp:0", &uri, &err), 0);
    assert_int_equal(uri_listen(&uri, &listener, chosen, &err), 0);
    assert_int_equal(uri_parse(chosen, &uri, &err), 0);
    while (!rc && count < 64) {
        rc = uri_connect(&uri, 20ull * 1000 * 1000, -1, &fds[count], &err);
        count += rc == 0;
    }
    assert_int_equal(rc, -ETIMEDOUT);
    assert_int_equal(uri_connect(&uri, DEADLINE_NS, cancel, &fds[0], &err), -ECANCELED);
    while (count)
        (void)close(fds[--count]);
    (void)close(listener);
    (void)close(cancel);
}

static void unix_sockets_and_their_files(void **state)
{
    char directory[] = "/tmp/pageferry-test.XXXXXX";
    char path[64];
    struct error err = {""};
    struct stat info;
    int first = -1, second = -1;

    (void)state;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof(path), "%s/s", directory);
    assert_int_equal(uri_listen_unix(path, &first, &err), 0);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    /* Somebody is there. */
    assert_int_equal(uri_listen_unix(path, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, path));
    /* Nobody is there any more. */
    assert_int_equal(close(first), 0);
    assert_int_equal(uri_listen_unix(path, &second, &err), 0);
    assert_int_equal(close(second), 0);
    assert_int_equal(unlink(path), 0);
    /* What is no socket stays. */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(uri_listen_unix(path, &second, &err) < 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_true(uri_listen_unix("/no/such/directory/s", &second, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_tcp),
        cmocka_unit_test(parses_the_others),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_what_is_too_long),
        cmocka_unit_test(connects),
        cmocka_unit_test(a_name_that_is_none),
        cmocka_unit_test(connecting_can_be_given_up),
        cmocka_unit_test(unix_sockets_and_their_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
