/* SPDX-License-Identifier: MIT
 *
 * The command line: a workload's name, then key=value words. */
#ifndef GUEST_LIB_COMMAND_LINE_H
#define GUEST_LIB_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies the next word of *text (blanks between words) into `word` and moves *text behind it.
 * False at the end. A word that does not fit is cut: no valid one is that long. */
bool command_line_word(const char **text, char *word, size_t bytes);

/* "123", "0x7b", "4K", "64M", "5G", "1T": false for anything else or an overflow. */
bool command_line_size(const char *text, uint64_t *value);

/* The value of the last `key=` word of boot_info.command_line, if it is a number. */
bool command_line_number(const char *key, uint64_t *value);

#endif
