/* SPDX-License-Identifier: MIT
 *
 * pageferry inspect: shows what a snapshot holds, and reads all of it to see that it is whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "migrate/snapshot_read.h"
#include "tools/commands.h"
#include "tools/fdt_json.h"
#include "tools/json_text.h"
#include "tools/options.h"
#include "tools/server.h"
#include "vmm/base/bitmap.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

static const char help[] =
    "usage: pageferry inspect [OPTION…] FILE\n\n"
    "Shows what a snapshot that `pageferry migrate … file:FILE` saved holds, and\n"
    "reads all of it to verify every checksum. Needs no /dev/kvm.\n\n"
    "      --json    one JSON object; keys in pageferry-inspect(1)\n\n"
    "Exit status: 0 whole, 1 damaged or no snapshot (one line with the offset), 2 bad\n"
    "usage.\n";

struct counts {
    uint64_t data, zero;
};

struct inspection {
    struct snapshot_reader reader;
    struct counts region[MIGRATE_MAX_REGIONS];
    uint8_t *contents; /* one granule */
    json_t *machine;   /* the machine tree */
};

static int look_at_granule(void *opaque, unsigned region, uint64_t granule,
                           const struct snapshot_entry *entry, struct error *err)
{
    struct inspection *inspection = opaque;

    inspection->region[region].data += bitmap_count(entry->data, SNAPSHOT_GRANULE_PAGES);
    inspection->region[region].zero += bitmap_count(entry->zero, SNAPSHOT_GRANULE_PAGES);
    return snapshot_reader_granule(&inspection->reader, region, granule, entry,
                                   inspection->contents, err);
}

static int look(struct inspection *inspection, const char *path, struct error *err)
{
    struct snapshot_reader *reader = &inspection->reader;
    int rc = snapshot_reader_open(reader, path, err);

    if (rc)
        return rc;
    inspection->contents = malloc(SNAPSHOT_GRANULE_BYTES);
    if (!inspection->contents)
        return error_set(err, ENOMEM, "no memory to verify pages");
    inspection->machine =
        fdt_json(reader->payload[SNAPSHOT_MACHINE], reader->payload_bytes[SNAPSHOT_MACHINE], err);
    if (!inspection->machine) {
        error_prefix(err, "%.300s: at byte %" PRIu64 ": the machine tree", path,
                     reader->record_offset[SNAPSHOT_MACHINE] + 64);
        return -EPROTO;
    }
    return snapshot_reader_walk(reader, look_at_granule, inspection, err);
}

static json_t *pages_json(const struct counts *counts, uint64_t npages)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "all", (json_int_t)npages, "data",
                     (json_int_t)counts->data, "zero", (json_int_t)counts->zero, "absent",
                     (json_int_t)(npages - counts->data - counts->zero));
}

static json_t *regions_json(const struct inspection *inspection)
{
    const struct snapshot_header *header = &inspection->reader.header;
    json_t *regions = json_array();

    for (unsigned i = 0; i < header->nregions; i++)
        (void)json_array_append_new(
            regions, json_pack("{s:I, s:I, s:o}", "gpa", (json_int_t)header->region[i].gpa,
                               "offset", (json_int_t)header->region[i].offset, "pages",
                               pages_json(&inspection->region[i], header->region[i].npages)));
    return regions;
}

static json_t *records_json(const struct snapshot_reader *reader)
{
    static const char *const names[SNAPSHOT_RECORDS] = {"MACHINE", "STATE"};
    json_t *records = json_array();

    for (unsigned i = 0; i < SNAPSHOT_RECORDS; i++)
        (void)json_array_append_new(records,
                                    json_pack("{s:s, s:I, s:I}", "type", names[i], "offset",
                                              (json_int_t)reader->record_offset[i], "payload_bytes",
                                              (json_int_t)reader->payload_bytes[i]));
    return records;
}

static struct counts sum(const struct inspection *inspection, uint64_t *npages)
{
    struct counts all = {0, 0};

    *npages = 0;
    for (unsigned i = 0; i < inspection->reader.header.nregions; i++) {
        all.data += inspection->region[i].data;
        all.zero += inspection->region[i].zero;
        *npages += inspection->reader.header.region[i].npages;
    }
    return all;
}

static void print_json(const struct inspection *inspection, int rc, const struct error *err)
{
    const struct snapshot_reader *reader = &inspection->reader;
    json_t *object = json_pack("{s:o}", "file", json_text(reader->path));
    uint64_t npages;
    struct counts all = sum(inspection, &npages);
    char *text;

    (void)json_object_set_new(object, "status", json_string(rc ? "damaged" : "whole"));
    if (rc)
        (void)json_object_set_new(object, "error", json_text(err->text));
    else
        (void)json_object_update_new(
            object,
            json_pack("{s:i, s:b, s:I, s:I, s:o, s:o, s:o, s:O}", "version", SNAPSHOT_VERSION,
                      "running", (reader->header.flags & SNAPSHOT_FLAG_RUN) != 0, "file_bytes",
                      (json_int_t)reader->header.file_bytes, "allocated_bytes",
                      (json_int_t)reader->allocated_bytes, "pages", pages_json(&all, npages),
                      "regions", regions_json(inspection), "records", records_json(reader),
                      "machine", inspection->machine));
    text = json_dumps(object, JSON_INDENT(2));
    puts(text ? text : "{}");
    free(text);
    json_decref(object);
}

static void print_tree(const json_t *node, int depth)
{
    const char *key;
    json_t *value;

    /* json_object_foreach wants it without const. */
    json_object_foreach((json_t *)(uintptr_t)node, key, value)
    {
        char *text;

        if (json_is_object(value)) {
            printf("%*s%s:\n", 2 * depth, "", key);
            print_tree(value, depth + 1);
            continue;
        }
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        printf("%*s%s = %s\n", 2 * depth, "", key, text ? text : "?");
        free(text);
    }
}

static void print_pages(const struct counts *counts, uint64_t npages)
{
    printf("%" PRIu64 " pages: %" PRIu64 " data, %" PRIu64 " zero, %" PRIu64 " absent\n", npages,
           counts->data, counts->zero, npages - counts->data - counts->zero);
}

static void print_text(const struct inspection *inspection)
{
    const struct snapshot_reader *reader = &inspection->reader;
    const struct snapshot_header *header = &reader->header;
    uint64_t npages;
    struct counts all = sum(inspection, &npages);
    char file[16], disk[16];

    printf("snapshot version %d of a guest that was %s\n", SNAPSHOT_VERSION,
           header->flags & SNAPSHOT_FLAG_RUN ? "running" : "paused");
    printf("file: %s, %s on disk\n", size_format(header->file_bytes, file, sizeof(file)),
           size_format(reader->allocated_bytes, disk, sizeof(disk)));
    print_pages(&all, npages);
    for (unsigned i = 0; i < header->nregions; i++) {
        printf("region at 0x%" PRIx64 ", byte %" PRIu64 ", ", header->region[i].gpa,
               header->region[i].offset);
        print_pages(&inspection->region[i], header->region[i].npages);
    }
    printf("page map at byte %" PRIu64 ", %" PRIu64 " bytes\n", header->map_offset,
           snapshot_map_bytes(header));
    for (unsigned i = 0; i < SNAPSHOT_RECORDS; i++)
        printf("%s at byte %" PRIu64 ", %zu bytes\n", i == SNAPSHOT_MACHINE ? "MACHINE" : "STATE",
               reader->record_offset[i], reader->payload_bytes[i]);
    printf("machine:\n");
    print_tree(inspection->machine, 1);
    printf("whole: every checksum is right\n");
}

static int inspect(const char *path, bool json)
{
    struct inspection inspection = {.reader.fd = -1};
    struct error err = {.text = ""};
    int rc = look(&inspection, path, &err);

    if (json)
        print_json(&inspection, rc, &err);
    else if (!rc)
        print_text(&inspection);
    if (rc)
        log_error("%s", err.text);
    snapshot_reader_close(&inspection.reader);
    free(inspection.contents);
    json_decref(inspection.machine);
    return rc ? SERVER_EXIT_FAILURE : 0;
}

int cmd_inspect(int argc, char **argv)
{
    bool json = false;
    const struct option_rule rules[] = {{"json", 0, OPTION_FLAG, &json, 0},
                                        {NULL, 0, OPTION_FLAG, NULL, 0}};
    char **operands;
    int noperands;
    enum options_result result;

    result = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (result != OPTIONS_GO)
        return (int)result;
    if (noperands != 1) {
        log_error("write pageferry inspect FILE: see --help");
        return SERVER_EXIT_USAGE;
    }
    return inspect(operands[0], json);
}
