/* SPDX-License-Identifier: MIT
 *
 * What is known of a migration once it has ended: phases, latencies, streams. */
#ifndef TOOLS_MIGRATION_FIGURES_H
#define TOOLS_MIGRATION_FIGURES_H

#include <jansson.h>

#include "migrate/progress.h"

/* Adds them to the object; keys in pageferry-migrate(1). */
void migration_figures(json_t *own, const struct progress_view *view);

#endif
