/* SPDX-License-Identifier: MIT
 *
 * The few string functions that compilers and callers want. Same meaning as in ISO C. */
#ifndef GUEST_LIB_STRING_H
#define GUEST_LIB_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t bytes);

#endif
