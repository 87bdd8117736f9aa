/* SPDX-License-Identifier: MIT
 *
 * Lines for people on stderr, each written by one write(2) so that threads do not mix. Stdout
 * belongs to the guest's console and to --json. */
#ifndef VMM_BASE_LOG_H
#define VMM_BASE_LOG_H

__attribute__((format(printf, 1, 2))) void log_info(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_warning(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...);

#endif
