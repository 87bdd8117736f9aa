/* SPDX-License-Identifier: MIT */
#include "tools/bench_numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vmm/base/size.h"

#define ELLIPSIS "\xe2\x80\xa6" /* U+2026 in UTF-8 */

/* Length of the mark that means "and so on, doubling", 0 where there is none. */
static size_t progression_mark(const char *text)
{
    if (strncmp(text, ELLIPSIS, strlen(ELLIPSIS)) == 0)
        return strlen(ELLIPSIS);
    if (strncmp(text, "..", 2) == 0)
        return text[2] == '.' ? 3 : 2;
    return 0;
}

static int add(struct bench_numbers *numbers, uint64_t value, struct error *err)
{
    if (!value)
        return error_set(err, EINVAL, "0 is not a number of pages: the least is 1");
    if (numbers->count && value <= numbers->value[numbers->count - 1])
        return error_set(err, EINVAL,
                         "the numbers must ascend: %" PRIu64 " does not come after %" PRIu64, value,
                         numbers->value[numbers->count - 1]);
    if (numbers->count == BENCH_NUMBERS_MAX)
        return error_set(err, EINVAL, "more than %d numbers", BENCH_NUMBERS_MAX);
    numbers->value[numbers->count++] = value;
    return 0;
}

static int add_doubling(struct bench_numbers *numbers, uint64_t last, struct error *err)
{
    int result = 0;

    if (!numbers->count)
        return error_set(err, EINVAL, "nothing stands before the dots");
    for (uint64_t next = numbers->value[numbers->count - 1]; !result && next < last / 2 + last % 2;)
        result = add(numbers, next *= 2, err);
    return result ? result : add(numbers, last, err);
}

int bench_numbers_parse(const char *text, struct bench_numbers *numbers, struct error *err)
{
    bool doubling = false;
    int result = 0;

    numbers->count = 0;
    for (;;) {
        char word[32];
        size_t length = 0;
        uint64_t value;

        while (text[length] && text[length] != ',' && !progression_mark(text + length))
            length++;
        (void)snprintf(word, sizeof(word), "%.*s", (int)(length < 31 ? length : 31), text);
        result = size_parse(word, &value, err);
        if (!result)
            result = doubling ? add_doubling(numbers, value, err) : add(numbers, value, err);
        if (result || !text[length])
            return result;
        text += length;
        doubling = *text != ',';
        text += doubling ? progression_mark(text) : 1;
        /* "1,2,4,…,262144" too. */
        if (!doubling && progression_mark(text)) {
            doubling = true;
            text += progression_mark(text);
        }
        if (doubling && *text == ',')
            text++;
    }
}
