/* SPDX-License-Identifier: MIT */
#include "tools/uri.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/size.h"

static int bad_form(const char *text, struct error *err)
{
    return error_set(err, EINVAL,
                     "'%.200s' is no migration address: write tcp:HOST:PORT, unix:PATH, "
                     "exec:COMMAND, fd:N or file:PATH",
                     text);
}

/* HOST:PORT, [IPv6]:PORT, :PORT or PORT. */
static int parse_tcp(const char *text, struct uri *uri, struct error *err)
{
    const char *host = text, *colon = strrchr(text, ':');
    const char *port = colon ? colon + 1 : text;
    size_t host_bytes = colon ? (size_t)(colon - text) : 0;
    struct error number_err;
    uint64_t number;

    if (host_bytes >= 2 && host[0] == '[' && host[host_bytes - 1] == ']') {
        host++;
        host_bytes -= 2;
    } else if (memchr(host, ':', host_bytes)) {
        return error_set(err, EINVAL, "'%.200s': write an IPv6 address as tcp:[ADDRESS]:PORT",
                         text);
    }
    if (host_bytes >= sizeof(uri->host))
        return error_set(err, EINVAL, "the host name in a tcp: address is too long");
    if (size_parse_number(port, 65535, &number, &number_err) || strlen(port) >= sizeof(uri->port))
        return error_set(err, EINVAL,
                         "'%.100s' is no port: write tcp:HOST:PORT with a port from 0 to 65535",
                         port);
    (void)snprintf(uri->port, sizeof(uri->port), "%u", (unsigned)number);
    if (host_bytes == 0)
        (void)snprintf(uri->host, sizeof(uri->host), "127.0.0.1");
    else
        (void)snprintf(uri->host, sizeof(uri->host), "%.*s", (int)host_bytes, host);
    return 0;
}

int uri_parse(const char *text, struct uri *uri, struct error *err)
{
    static const struct {
        const char *prefix;
        enum uri_kind kind;
    } schemes[] = {{"tcp:", URI_TCP},
                   {"unix:", URI_UNIX},
                   {"exec:", URI_EXEC},
                   {"fd:", URI_FD},
                   {"file:", URI_FILE}};

    memset(uri, 0, sizeof(*uri));
    if (strlen(text) >= URI_MAX_BYTES)
        return error_set(err, EINVAL, "the migration address is longer than %d bytes",
                         URI_MAX_BYTES - 1);
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i].prefix);

        if (strncmp(text, schemes[i].prefix, length) != 0)
            continue;
        if (text[length] == '\0')
            return bad_form(text, err);
        uri->kind = schemes[i].kind;
        if (uri->kind == URI_TCP)
            return parse_tcp(text + length, uri, err);
        (void)snprintf(uri->rest, sizeof(uri->rest), "%s", text + length);
        return 0;
    }
    return bad_form(text, err);
}
