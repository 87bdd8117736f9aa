/* SPDX-License-Identifier: MIT */
#include "tests/unit/replay.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "migrate/batch.h"
#include "migrate/channel.h"
#include "migrate/record.h"
#include "vmm/base/clock.h"

static struct channel *open_files(int in_fd, int out_fd)
{
    struct channel_options options = {.deadline_ns = CLOCK_NS_PER_SEC, .cancel_fd = -1};
    struct channel *channel;

    if (channel_open(&channel, in_fd, out_fd, &options, NULL))
        abort();
    return channel;
}

enum receive_outcome replay_stream(const uint8_t *bytes, size_t length, struct fake_guest *guest,
                                   struct error *err)
{
    int in_fd = memfd_create("stream", MFD_CLOEXEC);
    int out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct migrate_sink sink = fake_guest_sink(guest);
    struct progress progress;
    struct migrate_links links = {.next = NULL};
    struct channel *channel;
    enum receive_outcome outcome;

    if (in_fd < 0 || out_fd < 0 || write(in_fd, bytes, length) != (ssize_t)length ||
        lseek(in_fd, 0, SEEK_SET) != 0)
        abort();
    channel = open_files(in_fd, out_fd);
    progress_init(&progress);
    links.first = channel;
    outcome = receive_run(&sink, &links, &progress, err);
    progress_destroy(&progress);
    channel_close(channel);
    return outcome;
}

static void must(int rc)
{
    if (rc)
        abort();
}

static void send_pages(struct record_link *link, const struct fake_guest *guest, uint32_t round)
{
    struct wire_header header = {.type = WIRE_PAGES, .round = round};
    struct batch *batch = malloc(sizeof(*batch));

    if (!batch)
        abort();
    batch_init(batch, 1u << 20);
    (void)batch_add(batch, &guest->layout.region[0], 0, 1, WIRE_KIND_DATA);
    (void)batch_add(batch, &guest->layout.region[0], round, 2, WIRE_KIND_ZERO);
    (void)batch_add(batch, &guest->layout.region[1], REPLAY_PAGES_1 - 1, 1, WIRE_KIND_DATA);
    batch_finish(batch, &header);
    must(record_send_vectors(link, &header, batch->vectors, batch->nvectors, NULL));
    free(batch);
}

static void send_extents(struct record_link *link, const struct fake_guest *guest)
{
    struct wire_header header = {.type = WIRE_EXTENTS};
    struct batch *batch = malloc(sizeof(*batch));

    if (!batch)
        abort();
    batch_init(batch, 1u << 20);
    (void)batch_add(batch, &guest->layout.region[0], 0, REPLAY_PAGES_0, WIRE_KIND_POPULATED);
    batch_finish(batch, &header);
    must(record_send_vectors(link, &header, batch->vectors, batch->nvectors, NULL));
    free(batch);
}

static void send_stream(struct record_link *link, struct fake_guest *guest)
{
    struct migrate_source source = fake_guest_source(guest);
    struct wire_hello hello = {.version_min = 1,
                               .version_max = 1,
                               .role = WIRE_ROLE_SOURCE,
                               .session = {1, 2, 3},
                               .stream_count = 1,
                               .page_bytes = MIGRATE_PAGE_BYTES};
    struct wire_header machine = {.type = WIRE_MACHINE};
    struct wire_header sync = {.type = WIRE_SYNC};
    struct wire_header state = {.type = WIRE_STATE, .round = 1};
    struct wire_header commit = {.type = WIRE_COMMIT, .round = 1, .flags = WIRE_FLAG_RUN};
    struct migrate_layout layout;
    const void *tree;
    size_t tree_bytes;

    must(source.ops->describe(source.opaque, &tree, &tree_bytes, &layout, NULL));
    must(record_send_hello(link, &hello, NULL));
    must(record_send(link, &machine, NULL, 0, tree, tree_bytes, NULL));
    send_extents(link, guest);
    send_pages(link, guest, 0);
    must(record_send(link, &sync, NULL, 0, NULL, 0, NULL));
    send_pages(link, guest, 1);
    sync.round = 1;
    sync.flags = WIRE_FLAG_LAST;
    must(record_send(link, &sync, NULL, 0, NULL, 0, NULL));
    must(record_send(link, &state, NULL, 0, guest->state, sizeof(guest->state), NULL));
    must(record_send(link, &commit, NULL, 0, NULL, 0, NULL));
}

uint8_t *replay_record(size_t *length)
{
    static const uint64_t sizes[FAKE_REGIONS] = {REPLAY_PAGES_0, REPLAY_PAGES_1};
    int out_fd = memfd_create("stream", MFD_CLOEXEC);
    int in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int read_fd = out_fd < 0 ? -1 : dup(out_fd);
    struct record_link link = {.channel = open_files(in_fd, out_fd)};
    struct fake_guest guest;
    uint8_t *bytes;

    fake_guest_init(&guest, sizes, true);
    send_stream(&link, &guest);
    fake_guest_free(&guest);
    *length = (size_t)channel_sent_bytes(link.channel);
    channel_close(link.channel);
    bytes = malloc(*length);
    if (read_fd < 0 || !bytes || pread(read_fd, bytes, *length, 0) != (ssize_t)*length)
        abort();
    (void)close(read_fd);
    return bytes;
}
