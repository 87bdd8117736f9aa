/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: the destination's engine fed with arbitrary bytes. Checksums would stop nearly
 * every mutation at the door, so the harness repairs them first: what is fuzzed is what lies
 * behind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/wire.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Re-encodes every header that still decodes, in place. */
static void repair(uint8_t *bytes, size_t length)
{
    size_t at = WIRE_HELLO_BYTES;
    uint64_t sequence = 0;

    if (length < WIRE_HELLO_BYTES)
        return;
    while (at + WIRE_HEADER_BYTES <= length) {
        struct wire_header header;
        size_t left = length - at - WIRE_HEADER_BYTES;

        if (wire_get_header(bytes + at, &header, NULL) || header.meta_bytes > left)
            return;
        header.sequence = sequence++;
        left -= header.meta_bytes;
        if (header.payload_bytes <= left && (header.flags & WIRE_FLAG_PAYLOAD_HASH))
            header.payload_hash = wire_hash(bytes + at + WIRE_HEADER_BYTES + header.meta_bytes,
                                            (size_t)header.payload_bytes);
        wire_put_header(bytes + at, &header, bytes + at + WIRE_HEADER_BYTES);
        if (header.payload_bytes > left)
            return;
        at += WIRE_HEADER_BYTES + header.meta_bytes + (size_t)header.payload_bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t sizes[FAKE_REGIONS] = {REPLAY_PAGES_0, REPLAY_PAGES_1};
    struct error err = {.text = ""};
    struct fake_guest guest;
    uint8_t *bytes = malloc(size ? size : 1);
    enum receive_outcome outcome;

    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    repair(bytes, size);
    fake_guest_init(&guest, sizes, false);
    outcome = replay_stream(bytes, size, &guest, &err);
    /* Whatever came: a line for every refusal, and a guest runs only when it was taken over. */
    if (outcome != RECEIVE_RUNNING && outcome != RECEIVE_CHECKED && !err.text[0])
        abort();
    if (guest.ran != (outcome == RECEIVE_RUNNING))
        abort();
    fake_guest_free(&guest);
    free(bytes);
    return 0;
}
