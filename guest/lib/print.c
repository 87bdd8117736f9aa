/* SPDX-License-Identifier: MIT
 *
 * print(): the small part of printf that the guest uses. */
#include <stdarg.h>
#include <stdbool.h>

#include "guest/lib/console.h"
#include "guest/lib/string.h"

struct line {
    char text[PRINT_MAX];
    size_t used;
};

static void line_add(struct line *line, char c)
{
    if (line->used < sizeof(line->text))
        line->text[line->used++] = c;
}

static void line_string(struct line *line, const char *s, unsigned width)
{
    size_t n = strlen(s);

    while (n < width--)
        line_add(line, ' ');
    while (*s)
        line_add(line, *s++);
}

static void line_number(struct line *line, uint64_t value, unsigned base, unsigned width, char pad)
{
    char digits[20];
    unsigned n = 0;

    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    for (unsigned i = n; i < width; i++)
        line_add(line, pad);
    while (n)
        line_add(line, digits[--n]);
}

/* One conversion; `format` is just behind the '%'. Returns what follows it. */
static const char *line_convert(struct line *line, const char *format, va_list *arguments)
{
    unsigned width = 0;
    char pad = *format == '0' ? '0' : ' ';
    bool is_long;
    uint64_t value;

    while (*format >= '0' && *format <= '9')
        width = width * 10 + (unsigned)(*format++ - '0');
    is_long = *format == 'l';
    if (is_long)
        format++;
    switch (*format) {
    case 's':
        line_string(line, va_arg(*arguments, const char *), width);
        break;
    case 'c':
        line_add(line, (char)va_arg(*arguments, int));
        break;
    case 'd': {
        int64_t number = is_long ? va_arg(*arguments, int64_t) : va_arg(*arguments, int);

        if (number < 0)
            line_add(line, '-');
        line_number(line, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10, width, pad);
        break;
    }
    case 'u':
    case 'x':
        value = is_long ? va_arg(*arguments, uint64_t) : va_arg(*arguments, unsigned);
        line_number(line, value, *format == 'u' ? 10 : 16, width, pad);
        break;
    case '\0':
        return format;
    default:
        line_add(line, *format);
    }
    return format + 1;
}

void print(const char *format, ...)
{
    struct line line;
    va_list arguments;

    line.used = 0;
    va_start(arguments, format);
    while (*format) {
        if (*format == '%')
            format = line_convert(&line, format + 1, &arguments);
        else
            line_add(&line, *format++);
    }
    va_end(arguments);
    console_write(line.text, line.used);
}
