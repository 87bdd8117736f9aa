/* SPDX-License-Identifier: MIT */
#include "vmm/base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "vmm/base/clock.h"

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1}, {"K", SIZE_KIB}, {"M", SIZE_MIB}, {"G", SIZE_GIB}, {NULL, 0}};

static const struct unit duration_units[] = {{"ns", 1},
                                             {"us", CLOCK_NS_PER_US},
                                             {"ms", CLOCK_NS_PER_MS},
                                             {"s", CLOCK_NS_PER_SEC},
                                             {NULL, 0}};

static int parse_with_units(const char *text, const struct unit *units, uint64_t *value)
{
    char *end;
    unsigned long long number;

    /* strtoull would take signs and leading blanks. */
    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno)
        return -EINVAL;
    for (; units->suffix; units++) {
        if (strcasecmp(end, units->suffix) == 0) {
            if (number > UINT64_MAX / units->factor)
                return -EINVAL;
            *value = number * units->factor;
            return 0;
        }
    }
    return -EINVAL;
}

int size_parse(const char *text, uint64_t *bytes, struct error *err)
{
    if (parse_with_units(text, size_units, bytes))
        return error_set(err, EINVAL,
                         "'%s' is not a size or number: write e.g. 4096, 64K, 512M or 5G", text);
    return 0;
}

int size_parse_duration(const char *text, uint64_t *ns, struct error *err)
{
    if (parse_with_units(text, duration_units, ns))
        return error_set(err, EINVAL, "'%s' is not a duration: write e.g. 800ns, 250us, 50ms or 2s",
                         text);
    return 0;
}

int size_parse_number(const char *text, uint64_t max, uint64_t *value, struct error *err)
{
    char *end = NULL;
    unsigned long long number = 0;
    bool good = isdigit((unsigned char)text[0]) != 0;

    if (good) {
        int base = strncasecmp(text, "0x", 2) == 0 ? 16 : 10;
        errno = 0;
        number = strtoull(text, &end, base);
        good = errno == 0 && *end == '\0' && number <= max;
    }
    if (!good)
        return error_set(err, EINVAL, "'%s' is not a number from 0 to %" PRIu64, text, max);
    *value = number;
    return 0;
}

const char *size_format(uint64_t bytes, char *buf, size_t buf_bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(names) / sizeof(names[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(buf, buf_bytes, unit ? "%.1f %s" : "%.0f %s", value, names[unit]);
    return buf;
}

const char *size_format_duration(uint64_t ns, char *buf, size_t buf_bytes)
{
    if (ns < CLOCK_NS_PER_US)
        (void)snprintf(buf, buf_bytes, "%" PRIu64 " ns", ns);
    else if (ns < CLOCK_NS_PER_MS)
        (void)snprintf(buf, buf_bytes, "%.1f us", (double)ns / (double)CLOCK_NS_PER_US);
    else if (ns < CLOCK_NS_PER_SEC)
        (void)snprintf(buf, buf_bytes, "%.2f ms", (double)ns / (double)CLOCK_NS_PER_MS);
    else
        (void)snprintf(buf, buf_bytes, "%.2f s", (double)ns / (double)CLOCK_NS_PER_SEC);
    return buf;
}
