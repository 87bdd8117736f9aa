/* SPDX-License-Identifier: MIT
 *
 * One human line beside an errno. Functions return 0 or -errno; where the user must see why,
 * they also take a `struct error` and fill it where the cause is known. */
#ifndef VMM_BASE_ERROR_H
#define VMM_BASE_ERROR_H

#define ERROR_TEXT_BYTES 512

struct error {
    char text[ERROR_TEXT_BYTES]; /* one line, no newline; empty while nothing went wrong */
};

/* Sets the line and returns -code, so that `return error_set(err, EINVAL, …)` reads well.
 * `code` is a positive errno; `err` may be NULL. The text is cut at ERROR_TEXT_BYTES. */
__attribute__((format(printf, 3, 4))) int error_set(struct error *err, int code, const char *format,
                                                    ...);

/* Puts "context: " before the line that is already there; does nothing where err is NULL. */
__attribute__((format(printf, 2, 3))) void error_prefix(struct error *err, const char *format, ...);

#endif
