/* SPDX-License-Identifier: MIT */
#include "tools/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vmm/base/error.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

static const struct option_rule *find_long(const struct option_rule *rules, const char *name,
                                           size_t length)
{
    for (; rules->name; rules++) {
        if (strncmp(rules->name, name, length) == 0 && rules->name[length] == '\0')
            return rules;
    }
    return NULL;
}

static const struct option_rule *find_short(const struct option_rule *rules, char letter)
{
    for (; rules->name; rules++) {
        if (rules->letter == letter)
            return rules;
    }
    return NULL;
}

static int store(const struct option_rule *rule, const char *text, struct error *err)
{
    switch (rule->kind) {
    case OPTION_FLAG:
        *(bool *)rule->value = true;
        return 0;
    case OPTION_STRING:
        *(const char **)rule->value = text;
        return 0;
    case OPTION_SIZE:
        return size_parse(text, rule->value, err);
    case OPTION_DURATION:
        return size_parse_duration(text, rule->value, err);
    case OPTION_NUMBER:
        break;
    }
    return size_parse_number(text, rule->max, rule->value, err);
}

/* One option with its value, which may be the next word; *used gets how many words it took. */
static int take(const struct option_rule *rules, char **words, int left, int *used,
                struct error *err)
{
    const char *word = words[0];
    const char *value = NULL;
    const struct option_rule *rule;
    size_t length;

    if (word[1] == '-') {
        length = strcspn(word + 2, "=");
        rule = find_long(rules, word + 2, length);
        if (word[2 + length] == '=')
            value = word + 2 + length + 1;
        length += 2;
    } else {
        rule = find_short(rules, word[1]);
        if (word[2])
            value = word + 2;
        length = 2;
    }
    *used = 1;
    if (!rule)
        return error_set(err, EINVAL, "unknown option %.*s: see --help", (int)length, word);
    if (rule->kind == OPTION_FLAG && value)
        return error_set(err, EINVAL, "%.*s takes no value", (int)length, word);
    if (rule->kind != OPTION_FLAG && !value) {
        if (left < 2)
            return error_set(err, EINVAL, "%.*s needs a value: see --help", (int)length, word);
        value = words[1];
        *used = 2;
    }
    if (store(rule, value, err)) {
        error_prefix(err, "%.*s", (int)length, word);
        return -EINVAL;
    }
    return 0;
}

enum options_result options_parse(int argc, char **argv, const struct option_rule *rules,
                                  const char *help, char ***operands, int *noperands)
{
    struct error err;
    bool only_operands = false;
    int count = 0;

    for (int i = 1; i < argc;) {
        int used;

        if (only_operands || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[1 + count++] = argv[i++]; /* never ahead of what is read */
        } else if (strcmp(argv[i], "--") == 0) {
            only_operands = true;
            i++;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            (void)fputs(help, stdout);
            return OPTIONS_HELP;
        } else if (take(rules, argv + i, argc - i, &used, &err)) {
            log_error("%s", err.text);
            return OPTIONS_BAD;
        } else {
            i += used;
        }
    }
    *operands = argv + 1;
    *noperands = count;
    return OPTIONS_GO;
}
