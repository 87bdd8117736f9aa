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

/* What is to be converted, taken from the arguments by its length modifier. */
struct conversion {
    char kind;
    bool is_long;
    unsigned width;
    char pad;
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

/* Reads what follows a '%'; returns what follows the conversion. */
static const char *parse_conversion(struct conversion *conversion, const char *format)
{
    conversion->pad = *format == '0' ? '0' : ' ';
    conversion->width = 0;
    while (*format >= '0' && *format <= '9')
        conversion->width = conversion->width * 10 + (unsigned)(*format++ - '0');
    conversion->is_long = *format == 'l';
    if (conversion->is_long)
        format++;
    conversion->kind = *format;
    return *format ? format + 1 : format;
}

static void line_signed(struct line *line, int64_t number, const struct conversion *conversion)
{
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    if (number < 0)
        line_add(line, '-');
    line_number(line, magnitude, 10, conversion->width, conversion->pad);
}

void print(const char *format, ...)
{
    struct line line;
    struct conversion c;
    va_list arguments;

    line.used = 0;
    va_start(arguments, format);
    while (*format) {
        if (*format != '%') {
            line_add(&line, *format++);
            continue;
        }
        format = parse_conversion(&c, format + 1);
        if (c.kind == 's')
            line_string(&line, va_arg(arguments, const char *), c.width);
        else if (c.kind == 'c')
            line_add(&line, (char)va_arg(arguments, int));
        else if (c.kind == 'd')
            line_signed(&line, c.is_long ? va_arg(arguments, int64_t) : va_arg(arguments, int), &c);
        else if (c.kind == 'u' || c.kind == 'x')
            line_number(&line,
                        c.is_long ? va_arg(arguments, uint64_t) : va_arg(arguments, unsigned),
                        c.kind == 'u' ? 10 : 16, c.width, c.pad);
        else
            line_add(&line, c.kind);
    }
    va_end(arguments);
    console_write(line.text, line.used);
}
