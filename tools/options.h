/* SPDX-License-Identifier: MIT
 *
 * Command-line options as a table, so that every subcommand parses, complains and helps alike. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,     /* bool * */
    OPTION_STRING,   /* const char ** */
    OPTION_SIZE,     /* uint64_t *, bytes */
    OPTION_DURATION, /* uint64_t *, ns */
    OPTION_NUMBER,   /* uint64_t *, at most `max` */
};

struct option_rule {
    const char *name; /* long name without dashes */
    char letter;      /* short form, 0 = none */
    enum option_kind kind;
    void *value;
    uint64_t max;
};

/* Anything but GO is the exit status of a command that has nothing more to do. */
enum options_result { OPTIONS_GO = -1, OPTIONS_HELP = 0, OPTIONS_BAD = 2 };

/* Parses argv[1…]; options may stand between operands. *operands points into argv at the *noperands
 * words that are no options. `rules` ends with a NULL name. -h and --help print `help`; a bad
 * option is reported with what is accepted. */
enum options_result options_parse(int argc, char **argv, const struct option_rule *rules,
                                  const char *help, char ***operands, int *noperands);

#endif
