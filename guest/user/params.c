/* SPDX-License-Identifier: MIT
 *
 * Parameters of workloads, checked against their table. */
#include "guest/user/params.h"

#include <stdbool.h>

#include "guest/abi.h"
#include "guest/lib/boot_info.h"
#include "guest/lib/command_line.h"
#include "guest/lib/console.h"
#include "guest/lib/string.h"

#define WORD_BYTES 96

/* What every workload accepts; the kernel has acted on `cpus` already. */
static const struct param common[] = {
    {.key = "cpus", .type = PARAM_NUMBER, .value = 0, .min = 1, .max = GUEST_MAX_CPUS},
    {.key = "seconds", .type = PARAM_NUMBER, .value = 0, .min = 0, .max = 1u << 30},
    {.key = NULL},
};

static void print_param(const struct param *p)
{
    switch (p->type) {
    case PARAM_CHOICE:
        print("  %s=%s\n", p->key, p->choices);
        break;
    case PARAM_SIZE:
        print("  %s=SIZE|all (K, M, G, T)\n", p->key);
        break;
    case PARAM_NUMBER:
        if (p->max == UINT64_MAX)
            print("  %s=NUMBER\n", p->key);
        else
            print("  %s=NUMBER (%lu to %lu)\n", p->key, p->min, p->max);
        break;
    }
}

static void refuse(const struct param *table, const char *workload, const char *word,
                   const char *why) __attribute__((noreturn));
static void refuse(const struct param *table, const char *workload, const char *word,
                   const char *why)
{
    print("%s: %s: \"%s\"; accepted are\n", workload, why, word);
    for (const struct param *p = table; p->key; p++)
        print_param(p);
    for (const struct param *p = common; p->key; p++)
        print_param(p);
    machine_exit(GUEST_EXIT_BAD_COMMAND);
}

/* Number of the choice that is `text`, or -1. */
static int find_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);

    for (int n = 0; length; n++) {
        size_t one = 0;

        while (choices[one] && choices[one] != '|')
            one++;
        if (one == length && !strncmp(choices, text, one))
            return n;
        if (!choices[one])
            break;
        choices += one + 1;
    }
    return -1;
}

static bool parse_value(const struct param *p, const char *text, uint64_t *value)
{
    if (p->type == PARAM_CHOICE) {
        int n = find_choice(p->choices, text);

        *value = (uint64_t)n;
        return n >= 0;
    }
    if (p->type == PARAM_SIZE && !strcmp(text, "all")) {
        *value = UINT64_MAX;
        return true;
    }
    return command_line_size(text, value) && *value >= p->min && *value <= p->max;
}

static const struct param *find_key(const struct param *table, const char *word, size_t length)
{
    for (; table->key; table++) {
        if (strlen(table->key) == length && !strncmp(word, table->key, length))
            return table;
    }
    return NULL;
}

static bool has_dot(const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (word[i] == '.')
            return true;
    }
    return false;
}

static void parse_word(struct params *params, const struct param *table, const char *workload,
                       const char *word)
{
    size_t length = 0;
    uint64_t value;
    const struct param *p;

    while (word[length] && word[length] != '=')
        length++;
    if (has_dot(word, length))
        return;
    p = word[length] ? find_key(table, word, length) : NULL;
    if (p) {
        if (!parse_value(p, word + length + 1, &params->value[p - table]))
            refuse(table, workload, word, "bad value");
        return;
    }
    p = word[length] ? find_key(common, word, length) : NULL;
    if (!p)
        refuse(table, workload, word, "unknown parameter");
    if (!parse_value(p, word + length + 1, &value))
        refuse(table, workload, word, "bad value");
    if (p == &common[1])
        params->seconds = value;
    else if (value > boot_info.ncpus_present)
        refuse(table, workload, word, "more than the machine has");
}

void params_parse(struct params *params, const struct param *table, const char *workload,
                  const char *text)
{
    char word[WORD_BYTES];

    params->seconds = 0;
    for (unsigned i = 0; table[i].key; i++)
        params->value[i] = table[i].value;
    if (boot_info.command_line_cut)
        refuse(table, workload, "...", "command line too long");
    while (command_line_word(&text, word, sizeof(word)))
        parse_word(params, table, workload, word);
}
