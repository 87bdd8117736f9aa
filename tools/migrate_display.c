/* SPDX-License-Identifier: MIT */
#include "tools/migrate_display.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "vmm/base/log.h"
#include "vmm/base/size.h"

#define BAR_CELLS       12
#define DEFAULT_COLUMNS 80

static uint64_t number(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 ? (uint64_t)value : 0;
}

void migrate_display_init(struct migrate_display *display, bool json)
{
    memset(display, 0, sizeof(*display));
    display->bar = !json && isatty(STDERR_FILENO);
    display->lines = !json && !display->bar;
}

/* Columns of the terminal, less one so that nothing wraps. */
static int usable_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 2)
        return DEFAULT_COLUMNS - 1;
    return size.ws_col - 1;
}

static void show_bar(struct migrate_display *display, const json_t *own)
{
    char sent[16], left[16], rate[16], predicted[16] = "?";
    char cells[BAR_CELLS + 1], line[256];
    uint64_t memory = number(own, "memory_bytes"), remaining = number(own, "remaining_bytes");
    uint64_t downtime_ns = number(own, "predicted_downtime_ns");
    double share = memory && remaining < memory ? 1 - (double)remaining / (double)memory : 0;
    int full = (int)(share * BAR_CELLS);

    for (int i = 0; i < BAR_CELLS; i++)
        cells[i] = i < full ? '#' : '.';
    cells[BAR_CELLS] = '\0';
    if (downtime_ns)
        (void)size_format_duration(downtime_ns, predicted, sizeof(predicted));
    (void)snprintf(line, sizeof(line),
                   "[%s] round %llu %s sent %s left %s/s downtime ~%s dirty %llu pages/s", cells,
                   (unsigned long long)number(own, "round"),
                   size_format(number(own, "bytes_sent"), sent, sizeof(sent)),
                   size_format(remaining, left, sizeof(left)),
                   size_format(number(own, "recent_bandwidth_bytes_per_s"), rate, sizeof(rate)),
                   predicted, (unsigned long long)number(own, "dirty_pages_per_s"));
    (void)fprintf(stderr, "\r\033[K%.*s", usable_columns(), line);
    (void)fflush(stderr);
    display->bar_open = true;
}

static void clear_bar(struct migrate_display *display)
{
    if (display->bar_open)
        (void)fputs("\r\033[K", stderr);
    display->bar_open = false;
}

static void show_round(const json_t *round)
{
    char sent[16], took[16];
    uint64_t pages = number(round, "dirty_pages");

    printf("round %llu: %llu pages (%llu zero), %s in %s\n",
           (unsigned long long)number(round, "round"), (unsigned long long)pages,
           (unsigned long long)number(round, "zero_pages"),
           size_format(number(round, "sent_bytes"), sent, sizeof(sent)),
           size_format_duration(number(round, "ns"), took, sizeof(took)));
}

/* Prints the rounds below `until` that were not printed yet. */
static void show_rounds(struct migrate_display *display, const json_t *own, json_int_t until)
{
    const json_t *rounds = json_object_get(own, "rounds");
    size_t index;
    const json_t *round;

    json_array_foreach(rounds, index, round)
    {
        json_int_t which = json_integer_value(json_object_get(round, "round"));

        if (which >= display->rounds_shown && which < until) {
            show_round(round);
            display->rounds_shown = which + 1;
        }
    }
    (void)fflush(stdout);
}

void migrate_display_update(struct migrate_display *display, const json_t *reply)
{
    const json_t *own = json_object_get(reply, "x-pageferry");

    if (!own)
        return;
    if (display->bar)
        show_bar(display, own);
    else if (display->lines)
        show_rounds(display, own, json_integer_value(json_object_get(own, "round")));
}

/* The object of --json: our figures, QEMU's status names aside. */
static void print_json(const json_t *reply)
{
    json_t *object = json_copy(json_object_get(reply, "x-pageferry"));
    json_t *reason = json_object_get(reply, "error-desc");
    char *text;

    if (!object)
        object = json_object();
    (void)json_object_set(object, "status", json_object_get(object, "outcome"));
    (void)json_object_del(object, "outcome");
    if (reason)
        (void)json_object_set(object, "error", reason);
    text = json_dumps(object, JSON_INDENT(2));
    puts(text ? text : "{}");
    free(text);
    json_decref(object);
}

static void show_recording(const json_t *recording)
{
    const char *error = json_string_value(json_object_get(recording, "error"));
    const char *path = json_string_value(json_object_get(recording, "path"));

    if (error)
        log_error("nothing was recorded: %s", error);
    else if (path)
        printf("recorded: %llu rounds in %s\n", (unsigned long long)number(recording, "rounds"),
               path);
}

void migrate_display_end(struct migrate_display *display, const json_t *reply, bool json)
{
    const json_t *own = json_object_get(reply, "x-pageferry");
    char total[16], downtime[16], rate[16], sent[16];

    clear_bar(display);
    if (json) {
        print_json(reply);
        return;
    }
    if (!own)
        return;
    show_rounds(display, own, json_integer_value(json_object_get(own, "round")) + 1);
    show_recording(json_object_get(own, "recording"));
    if (strcmp(json_string_value(json_object_get(own, "outcome")), "completed") != 0)
        return;
    printf("completed: %s in %s (%s/s), downtime %s\n",
           size_format(number(own, "bytes_sent"), sent, sizeof(sent)),
           size_format_duration(number(own, "total_ns"), total, sizeof(total)),
           size_format(number(own, "bandwidth_bytes_per_s"), rate, sizeof(rate)),
           size_format_duration(number(own, "downtime_ns"), downtime, sizeof(downtime)));
}
