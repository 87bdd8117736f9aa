/* SPDX-License-Identifier: MIT
 *
 * How `pageferry migrate` shows a migration: a bar on a terminal, a line per round in a pipe, JSON
 * for machines. */
#ifndef TOOLS_MIGRATE_DISPLAY_H
#define TOOLS_MIGRATE_DISPLAY_H

#include <jansson.h>
#include <stdbool.h>

struct migrate_display {
    bool bar;      /* standard error is a terminal and no --json was asked for */
    bool lines;    /* neither bar nor --json */
    bool bar_open; /* a bar is on the line */
    json_int_t rounds_shown;
};

void migrate_display_init(struct migrate_display *display, bool json);

/* `reply` is an answer of query-migrate. */
void migrate_display_update(struct migrate_display *display, const json_t *reply);

/* The last words: rounds not yet shown, then the outcome; or with --json the object that the man
 * page describes. */
void migrate_display_end(struct migrate_display *display, const json_t *reply, bool json);

#endif
