/* SPDX-License-Identifier: MIT
 *
 * Words and numbers of the command line. */
#include "guest/lib/command_line.h"

#include "guest/lib/boot_info.h"
#include "guest/lib/string.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool command_line_word(const char **text, char *word, size_t bytes)
{
    const char *s = *text;
    size_t n = 0;

    while (is_blank(*s))
        s++;
    while (*s && !is_blank(*s)) {
        if (n + 1 < bytes)
            word[n++] = *s;
        s++;
    }
    word[n] = '\0';
    *text = s;
    return n > 0;
}

static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return 99;
}

static bool unit_shift(char c, unsigned *shift)
{
    static const char units[] = "KMGT";

    for (unsigned i = 0; units[i]; i++) {
        if (c == units[i] || c == units[i] + ('a' - 'A')) {
            *shift = 10 * (i + 1);
            return true;
        }
    }
    return false;
}

bool command_line_size(const char *text, uint64_t *value)
{
    unsigned base = 10;
    unsigned shift = 0;
    uint64_t n = 0;

    if (text[0] == '0' && text[1] == 'x') {
        base = 16;
        text += 2;
    }
    if (digit_value(*text) >= base)
        return false;
    for (; digit_value(*text) < base; text++) {
        if (__builtin_mul_overflow(n, base, &n) ||
            __builtin_add_overflow(n, digit_value(*text), &n))
            return false;
    }
    if (*text && unit_shift(*text, &shift))
        text++;
    if (*text || n > UINT64_MAX >> shift)
        return false;
    *value = n << shift;
    return true;
}

bool command_line_number(const char *key, uint64_t *value)
{
    const char *text = boot_info.command_line;
    size_t length = strlen(key);
    char word[64];
    bool found = false;

    while (command_line_word(&text, word, sizeof(word))) {
        if (!strncmp(word, key, length) && word[length] == '=')
            found = command_line_size(word + length + 1, value);
    }
    return found;
}
