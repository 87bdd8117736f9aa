/* SPDX-License-Identifier: MIT
 *
 * Name look-ups that can be given up: libc's own cannot. */
#ifndef TOOLS_URI_RESOLVE_H
#define TOOLS_URI_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/error.h"

/* The addresses of a TCP host and port until until_ns, or until cancel_fd is readable (-1: none);
 * -ETIMEDOUT, -ECANCELED, -EHOSTUNREACH with a line. freeaddrinfo() frees *list. What is given up
 * ends by itself, in a thread of its own. */
int uri_resolve(const char *host, const char *port, bool passive, uint64_t until_ns, int cancel_fd,
                struct addrinfo **list, struct error *err);

#endif
