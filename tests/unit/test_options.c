/* SPDX-License-Identifier: MIT
 *
 * Command lines: every way of writing an option, and every wrong one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/options.h"

#define MAX_WORDS 12

struct values {
    bool flag;
    const char *string;
    uint64_t size, duration, number;
    char **operands;
    int noperands;
};

/* Parses words, which end with NULL. */
static enum options_result parse(struct values *values, const char *const *words)
{
    const struct option_rule rules[] = {{"flag", 'f', OPTION_FLAG, &values->flag, 0},
                                        {"string", 0, OPTION_STRING, &values->string, 0},
                                        {"size", 'm', OPTION_SIZE, &values->size, 0},
                                        {"time", 't', OPTION_DURATION, &values->duration, 0},
                                        {"number", 'n', OPTION_NUMBER, &values->number, 16},
                                        {NULL, 0, OPTION_FLAG, NULL, 0}};
    static char *argv[MAX_WORDS + 2];
    static char name[] = "command";
    int argc = 1;

    argv[0] = name;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    argv[argc] = NULL;
    return options_parse(argc, argv, rules, "help\n", &values->operands, &values->noperands);
}

#define PARSE(values, ...) parse(values, (const char *const[]){__VA_ARGS__, NULL})

static void every_form(void **state)
{
    struct values v = {0};

    (void)state;
    assert_int_equal(PARSE(&v, "--flag", "--string", "a b", "--size=64M", "-t", "50ms", "-n7"),
                     OPTIONS_GO);
    assert_true(v.flag);
    assert_string_equal(v.string, "a b");
    assert_int_equal(v.size, 64ull << 20);
    assert_int_equal(v.duration, 50000000);
    assert_int_equal(v.number, 7);
    assert_int_equal(v.noperands, 0);
    /* An empty value is one, and the value may look like an option. */
    assert_int_equal(PARSE(&v, "--string="), OPTIONS_GO);
    assert_string_equal(v.string, "");
    assert_int_equal(PARSE(&v, "--string", "--flag"), OPTIONS_GO);
    assert_string_equal(v.string, "--flag");
    assert_int_equal(PARSE(&v, "--string", "--help"), OPTIONS_GO);
    assert_int_equal(PARSE(&v, "--string=a=b"), OPTIONS_GO);
    assert_string_equal(v.string, "a=b");
    /* The last one counts. */
    assert_int_equal(PARSE(&v, "-n", "1", "-n", "2"), OPTIONS_GO);
    assert_int_equal(v.number, 2);
}

static void operands_between_options(void **state)
{
    struct values v = {0};

    (void)state;
    assert_int_equal(PARSE(&v, "one", "-f", "two", "-n", "3", "-", "--", "--flag", "-h"),
                     OPTIONS_GO);
    assert_int_equal(v.noperands, 5);
    assert_string_equal(v.operands[0], "one");
    assert_string_equal(v.operands[1], "two");
    assert_string_equal(v.operands[2], "-");
    assert_string_equal(v.operands[3], "--flag");
    assert_string_equal(v.operands[4], "-h");
}

static void refuses(void **state)
{
    static const char *const bad[][MAX_WORDS] = {
        {"--nosuch", NULL},     {"--fla", NULL},       {"--flags", NULL},
        {"-x", NULL},           {"--flag=yes", NULL},  {"-fx", NULL},
        {"--string", NULL},     {"-m", NULL},          {"--size", "64MB", NULL},
        {"--size=", NULL},      {"--time", "5", NULL}, {"--number", "17", NULL},
        {"--number=-1", NULL},  {"--", NULL, NULL},    {"--=", NULL},
        {"-n", "1", "-", "-y"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct values v = {0};
        enum options_result wanted =
            strcmp(bad[i][0], "--") == 0 ? OPTIONS_GO : OPTIONS_BAD; /* alone it is fine */

        assert_int_equal(parse(&v, bad[i]), wanted);
    }
}

static void asks_for_help(void **state)
{
    struct values v = {0};

    (void)state;
    assert_int_equal(PARSE(&v, "--help"), OPTIONS_HELP);
    assert_int_equal(PARSE(&v, "-f", "word", "-h"), OPTIONS_HELP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form),
        cmocka_unit_test(operands_between_options),
        cmocka_unit_test(refuses),
        cmocka_unit_test(asks_for_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
