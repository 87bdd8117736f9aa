/* SPDX-License-Identifier: MIT
 *
 * String functions. The copying ones are string instructions: nothing that the compiler could turn
 * back into a call to itself, and few instructions where ring 0 is emulated. */
#include "guest/lib/string.h"

#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    void *d = to;
    size_t words = bytes / 8;
    size_t rest = bytes % 8;

    __asm__ volatile("rep movsq" : "+D"(d), "+S"(from), "+c"(words) : : "memory");
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(from), "+c"(rest) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    unsigned char *d = to;
    const unsigned char *s = from;

    if (d <= s || d >= s + bytes)
        return memcpy(to, from, bytes);
    while (bytes--) {
        d[bytes] = s[bytes];
        __asm__ volatile("" : : : "memory");
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    void *d = to;
    size_t words = bytes / 8;
    size_t rest = bytes % 8;
    uint64_t fill = 0x0101010101010101ull * (unsigned char)value;

    __asm__ volatile("rep stosq" : "+D"(d), "+c"(words) : "a"(fill) : "memory");
    __asm__ volatile("rep stosb" : "+D"(d), "+c"(rest) : "a"(fill) : "memory");
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a;
    const unsigned char *y = b;

    for (size_t i = 0; i < bytes; i++) {
        if (x[i] != y[i])
            return x[i] - y[i];
    }
    return 0;
}

size_t strlen(const char *s)
{
    size_t n = 0;

    while (s[n]) {
        n++;
        __asm__ volatile("" : : : "memory");
    }
    return n;
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i] || !a[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
    }
    return 0;
}
