/* SPDX-License-Identifier: MIT
 *
 * A workload's parameters: `key=value` words behind its name. */
#ifndef GUEST_USER_PARAMS_H
#define GUEST_USER_PARAMS_H

#include <stdint.h>

#define PARAMS_MAX 16

enum param_type {
    PARAM_NUMBER, /* 0x, K, M, G, T allowed */
    PARAM_SIZE,   /* the same, or "all" = UINT64_MAX */
    PARAM_CHOICE, /* one of `choices`, separated by '|'; the value is its number */
};

struct param {
    const char *key;
    enum param_type type;
    uint64_t value; /* the default */
    uint64_t min, max;
    const char *choices;
};

/* Values in the order of the workload's own table, which a key of NULL ends. */
struct params {
    uint64_t value[PARAMS_MAX];
    uint64_t seconds; /* every workload has it: 0 = until told to finish */
};

/* Reads the words in `text`. An unknown key or a bad value prints what is accepted and ends the
 * guest with GUEST_EXIT_BAD_COMMAND. Words with a dot in the key (Linux module parameters, which
 * VMMs append by themselves) are passed over. */
void params_parse(struct params *params, const struct param *table, const char *workload,
                  const char *text);

#endif
