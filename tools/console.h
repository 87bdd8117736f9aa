/* SPDX-License-Identifier: MIT
 *
 * The guest's serial port on this host: standard input and output, a file, or nowhere. Never blocks
 * the control thread: a reader that does not read makes the guest wait, nobody else. */
#ifndef TOOLS_CONSOLE_H
#define TOOLS_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "tools/loop.h"
#include "vmm/base/error.h"
#include "vmm/machine.h"

struct console {
    int in_fd;  /* -1: no input */
    int out_fd; /* -1: output is thrown away */
    bool owns_out;
    bool raw;    /* the terminal's settings were changed: `saved` goes back */
    bool escape; /* Ctrl-A was typed */
    bool in_watched, out_watched;
    bool input_done; /* end of file */
    struct termios saved;
    struct loop *loop;
    struct machine *machine; /* borrowed; NULL until attached */
    uint8_t input[256];
    size_t input_bytes, input_given;
    uint8_t output[4096]; /* as much as a pipe that is writable surely takes */
    size_t output_bytes, output_done;
};

/* spec: "stdio", "null" or "file:PATH". */
int console_open(struct console *console, const char *spec, struct loop *loop, struct error *err);

/* From now on bytes flow between the machine and the host. */
void console_attach(struct console *console, struct machine *machine);

/* No guest takes input any more: the terminal is the user's again. */
void console_end_input(struct console *console);

/* Moves what can be moved without blocking. Called when the machine signals. */
void console_pump(struct console *console);

/* Writes out all that the guest printed, waiting for the reader: timeout_ms at the most for each
 * piece (-1: as long as it takes), and no longer once give_up_fd is readable. The guest stands
 * still, or there may be no end. */
void console_drain(struct console *console, int timeout_ms, int give_up_fd);

/* Restores the terminal. Safe to call twice. */
void console_close(struct console *console);

#endif
