/* SPDX-License-Identifier: MIT
 *
 * The streams of one outgoing migration come together: HELLO on the first, then on each other. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "migrate/precopy_internal.h"
#include "vmm/base/clock.h"

static int exchange_hello(struct record_link *link, const struct wire_hello *ours,
                          struct wire_hello *peer, struct error *err)
{
    uint16_t version;
    int rc = record_send_hello(link, ours, err);

    if (!rc)
        rc = record_receive_hello(link, WIRE_ROLE_DESTINATION, peer, err);
    if (!rc)
        rc = wire_choose_version(peer, &version, err);
    if (rc)
        return rc;
    if (memcmp(peer->session, ours->session, sizeof(ours->session)) != 0)
        return error_set(err, EPROTO, "the destination answered for another session");
    if (peer->stream_index != ours->stream_index || peer->stream_count != ours->stream_count)
        return error_set(err, EPROTO, "the destination answered for stream %u of %u, not %u of %u",
                         (unsigned)peer->stream_index, (unsigned)peer->stream_count,
                         (unsigned)ours->stream_index, (unsigned)ours->stream_count);
    return 0;
}

/* Before a page is sent. */
static int check_codec(const struct precopy *p, const struct wire_hello *peer, struct error *err)
{
    uint64_t needed = p->options->compress == WIRE_CODEC_ZSTD  ? WIRE_FEATURE_ZSTD
                      : p->options->compress == WIRE_CODEC_LZ4 ? WIRE_FEATURE_LZ4
                                                               : 0;

    if ((peer->features & needed) != needed)
        return error_set(err, EPROTONOSUPPORT,
                         "the destination cannot decompress %s: use another --compress, or none",
                         needed == WIRE_FEATURE_ZSTD ? "zstd" : "lz4");
    return 0;
}

int precopy_say_hello(struct precopy *p, struct error *err)
{
    struct wire_hello peer;
    uint64_t begin_ns;
    int rc;

    p->hello = (struct wire_hello){.version_min = WIRE_VERSION_MIN,
                                   .version_max = WIRE_VERSION_MAX,
                                   .role = WIRE_ROLE_SOURCE,
                                   .flags = p->options->check_only ? WIRE_HELLO_CHECK : 0,
                                   .stream_count = (uint16_t)p->options->streams,
                                   .page_bytes = MIGRATE_PAGE_BYTES};
    progress_set_phase(p->progress, PROGRESS_HELLO);
    if (p->options->streams > 1 && !p->links->next)
        return error_set(err, EINVAL,
                         "%u streams need an address to connect to (tcp: or unix:): use one stream",
                         p->options->streams);
    if (getrandom(p->hello.session, sizeof(p->hello.session), 0) !=
        (ssize_t)sizeof(p->hello.session))
        return error_set(err, EIO, "getrandom: no random bytes for the session id");
    begin_ns = clock_now_ns();
    rc = exchange_hello(&p->link, &p->hello, &peer, err);
    if (rc)
        return rc;
    precopy_saw_round_trip(p, begin_ns);
    return check_codec(p, &peer, err);
}

int precopy_join_streams(struct precopy *p, struct error *err)
{
    struct streams_options options = precopy_streams_options(p->options);
    struct wire_hello hello = p->hello;

    for (hello.stream_index = 1; hello.stream_index < hello.stream_count; hello.stream_index++) {
        struct channel *channel = NULL;
        struct record_link *link;
        struct wire_hello peer;
        int rc = p->links->next(p->links->opaque, &channel, err);

        if (!rc)
            rc = streams_add(&p->copier.streams, channel, &link, &options, err);
        if (!rc)
            rc = exchange_hello(link, &hello, &peer, err);
        if (rc) {
            error_prefix(err, "stream %u", (unsigned)hello.stream_index);
            return rc;
        }
    }
    return streams_start(&p->copier.streams, err);
}
