/* SPDX-License-Identifier: MIT
 *
 * One client of the control socket. Internal to the socket's server. */
#ifndef TOOLS_CONTROL_CLIENT_H
#define TOOLS_CONTROL_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/control.h"

/* A loop callback: reads once, handles every complete message, writes what can be written. */
void control_client_serve(void *opaque, uint32_t events);

/* Queues one message, taking the reference. A client that does not read is dropped, not waited for.
 */
void control_client_send(struct control_client *client, json_t *message);

/* Writes what the socket takes now. False where the client is gone. */
bool control_client_flush(struct control_client *client);

/* Closes the connection and frees the slot. */
void control_client_drop(struct control_client *client);

#endif
