/* SPDX-License-Identifier: MIT */
#include "tools/bench_kvm_stats.h"

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* More than any kernel has: a header that says otherwise is not believed. */
#define MOST_STATS      1024u
#define MOST_NAME_BYTES 256u

static bool wanted(const char *name)
{
    return strncmp(name, "pf_", 3) == 0 || strncmp(name, "pages_", 6) == 0 ||
           strncmp(name, "mmu_", 4) == 0 || strstr(name, "flush") || strstr(name, "split");
}

static void add(struct bench_kvm_stats *stats, const char *name, int64_t value)
{
    unsigned i;

    for (i = 0; i < stats->count; i++) {
        if (strcmp(stats->stat[i].name, name) == 0)
            break;
    }
    if (i == BENCH_KVM_STATS_MAX)
        return;
    if (i == stats->count) {
        stats->count++;
        stats->stat[i].value = 0;
        (void)snprintf(stats->stat[i].name, sizeof(stats->stat[i].name), "%s", name);
    }
    stats->stat[i].value += value;
}

/* Histograms and times have no place among the counts. */
static bool is_count(const struct kvm_stats_desc *desc)
{
    uint32_t type = desc->flags & KVM_STATS_TYPE_MASK;

    return desc->size == 1 && (desc->flags & KVM_STATS_UNIT_MASK) == KVM_STATS_UNIT_NONE &&
           (type == KVM_STATS_TYPE_CUMULATIVE || type == KVM_STATS_TYPE_INSTANT);
}

static void add_all(struct bench_kvm_stats *stats, int fd, int sign,
                    const struct kvm_stats_header *header, char *descriptors)
{
    size_t bytes = sizeof(struct kvm_stats_desc) + header->name_size;

    if (pread(fd, descriptors, bytes * header->num_desc, header->desc_offset) !=
        (ssize_t)(bytes * header->num_desc))
        return;
    for (uint32_t i = 0; i < header->num_desc; i++) {
        struct kvm_stats_desc desc;
        char *name = descriptors + i * bytes + sizeof(desc);
        uint64_t value;

        memcpy(&desc, descriptors + i * bytes, sizeof(desc));
        name[header->name_size - 1] = '\0';
        if (is_count(&desc) && wanted(name) &&
            pread(fd, &value, sizeof(value), (off_t)header->data_offset + desc.offset) ==
                (ssize_t)sizeof(value))
            add(stats, name, sign * (int64_t)value);
    }
}

void bench_kvm_stats_add(struct bench_kvm_stats *stats, int fd, int sign)
{
    int stats_fd = ioctl(fd, KVM_GET_STATS_FD, NULL);
    struct kvm_stats_header header;
    char *descriptors = NULL;

    if (stats_fd < 0)
        return;
    if (pread(stats_fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
        header.name_size && header.name_size <= MOST_NAME_BYTES && header.num_desc <= MOST_STATS)
        descriptors = malloc((sizeof(struct kvm_stats_desc) + header.name_size) *
                             (header.num_desc ? header.num_desc : 1u));
    if (descriptors)
        add_all(stats, stats_fd, sign, &header, descriptors);
    free(descriptors);
    (void)close(stats_fd);
}

json_t *bench_kvm_stats_json(const struct bench_kvm_stats *stats)
{
    json_t *object = json_object();

    for (unsigned i = 0; object && i < stats->count; i++) {
        if (stats->stat[i].value)
            (void)json_object_set_new(object, stats->stat[i].name,
                                      json_integer(stats->stat[i].value));
    }
    return object;
}
