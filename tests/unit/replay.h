/* SPDX-License-Identifier: MIT
 *
 * Feeds bytes to the destination's engine as if a source had sent them, and records what a real
 * source sends. */
#ifndef TESTS_UNIT_REPLAY_H
#define TESTS_UNIT_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "migrate/receive.h"
#include "tests/unit/fake_guest.h"

/* A small guest: the stream is short enough to be damaged in every byte. */
#define REPLAY_PAGES_0 64
#define REPLAY_PAGES_1 37

/* Runs receive_run() over the bytes, then end of file. Answers go nowhere. */
enum receive_outcome replay_stream(const uint8_t *bytes, size_t length, struct fake_guest *guest,
                                   struct error *err);

/* What a source sends, from HELLO to COMMIT, for a guest with a few pages of each kind. The caller
 * frees it. */
uint8_t *replay_record(size_t *length);

#endif
