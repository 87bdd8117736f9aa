/* SPDX-License-Identifier: MIT
 *
 * The command of the control socket that tells what the guest's vCPUs exit for. */
#ifndef TOOLS_QMP_TRACE_H
#define TOOLS_QMP_TRACE_H

#include <jansson.h>

#include "tools/server.h"
#include "vmm/base/error.h"

/* See struct command in tools/qmp_commands.c. */
json_t *qmp_trace_exits(struct server *server, json_t *arguments, struct error *err);

#endif
