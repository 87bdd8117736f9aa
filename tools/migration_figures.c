/* SPDX-License-Identifier: MIT */
#include "tools/migration_figures.h"

/* Where the time went; the destination's resume is a part of commit_ns. */
static json_t *phases_json(const struct progress_view *view)
{
    const uint64_t *ns = view->phase_ns;
    uint64_t setup_ns =
        ns[PROGRESS_CONNECT] + ns[PROGRESS_HELLO] + ns[PROGRESS_MACHINE] + ns[PROGRESS_JOIN];

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "setup_ns", (json_int_t)setup_ns,
                     "rounds_ns", (json_int_t)ns[PROGRESS_ROUNDS], "pause_ns",
                     (json_int_t)ns[PROGRESS_PAUSE], "final_ns", (json_int_t)ns[PROGRESS_FINAL],
                     "state_ns", (json_int_t)ns[PROGRESS_STATE], "ready_ns",
                     (json_int_t)ns[PROGRESS_READY], "commit_ns", (json_int_t)ns[PROGRESS_COMMIT]);
}

static json_t *latency_json(const struct histogram *histogram)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)histogram->count, "p50_ns",
                     (json_int_t)histogram_quantile(histogram, 500), "p99_ns",
                     (json_int_t)histogram_quantile(histogram, 990), "p999_ns",
                     (json_int_t)histogram_quantile(histogram, 999), "max_ns",
                     (json_int_t)histogram->max_ns);
}

static json_t *latencies_json(const struct progress_view *view)
{
    return json_pack("{s:o, s:o, s:o}", "sync", latency_json(&view->sync_ns), "claim",
                     latency_json(&view->claim_ns), "send", latency_json(&view->send_ns));
}

/* What was asked for, or what became of it. */
static const char *zerocopy_name(enum channel_zerocopy zerocopy)
{
    switch (zerocopy) {
    case CHANNEL_ZEROCOPY_OFF:
        return "off";
    case CHANNEL_ZEROCOPY_ON:
        return "on";
    case CHANNEL_ZEROCOPY_AUTO:
        return "auto";
    case CHANNEL_ZEROCOPY_COPIED:
        return "copied";
    case CHANNEL_ZEROCOPY_UNSUPPORTED:
        return "unsupported";
    }
    return "unknown";
}

void migration_figures(json_t *own, const struct progress_view *view)
{
    json_t *bytes = json_array();

    for (unsigned i = 0; i < view->streams; i++)
        (void)json_array_append_new(bytes, json_integer((json_int_t)view->stream_bytes[i]));
    (void)json_object_set_new(own, "stream_bytes", bytes);
    (void)json_object_set_new(own, "phases", phases_json(view));
    (void)json_object_set_new(own, "latencies", latencies_json(view));
    (void)json_object_set_new(own, "compressed_bytes",
                              json_integer((json_int_t)view->packed_bytes));
    (void)json_object_set_new(own, "zero_copy", json_string(zerocopy_name(view->zerocopy)));
    (void)json_object_set_new(own, "zero_copy_bytes",
                              json_integer((json_int_t)view->zerocopy_bytes));
}
