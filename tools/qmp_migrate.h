/* SPDX-License-Identifier: MIT
 *
 * The migration's side of the control protocol. */
#ifndef TOOLS_QMP_MIGRATE_H
#define TOOLS_QMP_MIGRATE_H

#include <jansson.h>

#include "tools/server.h"

/* Each takes the command's arguments and returns the value of "return", or NULL with err set. */
json_t *qmp_migrate(struct server *server, json_t *arguments, struct error *err);
json_t *qmp_migrate_cancel(struct server *server, json_t *arguments, struct error *err);
json_t *qmp_resolve(struct server *server, json_t *arguments, struct error *err);
json_t *qmp_query_migrate(struct server *server, json_t *arguments, struct error *err);

#endif
