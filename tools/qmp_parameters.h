/* SPDX-License-Identifier: MIT
 *
 * A migration's parameters in the control protocol: set for all migrations to come, and shown. */
#ifndef TOOLS_QMP_PARAMETERS_H
#define TOOLS_QMP_PARAMETERS_H

#include <jansson.h>

#include "tools/server.h"

/* As in qmp_migrate.h. All or nothing: a bad value changes none. */
json_t *qmp_migrate_set_parameters(struct server *server, json_t *arguments, struct error *err);
json_t *qmp_query_migrate_parameters(struct server *server, json_t *arguments, struct error *err);

#endif
