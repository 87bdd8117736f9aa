/* SPDX-License-Identifier: MIT
 *
 * Writes the seed corpus: a whole stream and its prefixes at every record. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "migrate/wire.h"
#include "tests/unit/replay.h"

static int write_file(const char *directory, const char *name, const uint8_t *bytes, size_t length)
{
    char path[4096];
    FILE *file;
    int rc;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    if (!file)
        return -1;
    rc = fwrite(bytes, 1, length, file) == length ? 0 : -1;
    return fclose(file) == 0 ? rc : -1;
}

int main(int argc, char **argv)
{
    size_t length, at = WIRE_HELLO_BYTES;
    uint8_t *bytes;
    int rc = 0;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: make_corpus DIRECTORY\n");
        return 2;
    }
    bytes = replay_record(&length);
    while (!rc && at < length) {
        struct wire_header header;
        char name[32];

        (void)snprintf(name, sizeof(name), "prefix_%zu", at);
        rc = write_file(argv[1], name, bytes, at);
        if (wire_get_header(bytes + at, &header, NULL))
            rc = -1;
        at += WIRE_HEADER_BYTES + header.meta_bytes + (size_t)header.payload_bytes;
    }
    if (!rc)
        rc = write_file(argv[1], "whole_stream", bytes, length);
    free(bytes);
    return rc ? 1 : 0;
}
