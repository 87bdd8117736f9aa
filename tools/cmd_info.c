/* SPDX-License-Identifier: MIT
 *
 * pageferry info: what this host's KVM offers, as far as pageferry cares. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>
#include <linux/kvm.h>

#include "tools/commands.h"
#include "tools/host_facts.h"
#include "tools/json_text.h"
#include "tools/options.h"
#include "tools/server.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"
#include "vmm/dirty_log.h"
#include "vmm/dirty_ring.h"

static const char help[] =
    "usage: pageferry info [--json]\n\n"
    "Shows what this host's KVM offers: flavour, limits, dirty-log backends, clocks,\n"
    "memory and huge pages.\n\n"
    "      --json   one JSON object instead of text\n";

static json_t *read_line(const char *path)
{
    char line[256];

    host_line(path, line, sizeof(line));
    return json_text(line);
}

static json_t *dirty_log_json(const struct kvm *kvm)
{
    json_t *offered = json_array();
    unsigned most = kvm->dirty_ring_max / DIRTY_RING_ENTRY_BYTES;

    for (unsigned i = 0; i < DIRTY_LOG_NBACKENDS; i++) {
        if (dirty_log_supported(kvm, (enum dirty_log_backend)i))
            (void)json_array_append_new(
                offered, json_string(dirty_log_backend_name((enum dirty_log_backend)i)));
    }
    return json_pack("{s:o, s:s, s:I, s:b, s:I, s:I}", "backends", offered, "chosen",
                     dirty_log_backend_name(dirty_log_best(kvm, NULL)), "manual_protect_flags",
                     (json_int_t)kvm->manual_protect, "initially_set",
                     (kvm->manual_protect & KVM_DIRTY_LOG_INITIALLY_SET) != 0, "ring_min_entries",
                     (json_int_t)(most ? DIRTY_RING_MIN_ENTRIES : 0), "ring_max_entries",
                     (json_int_t)most);
}

static json_t *describe(const struct kvm *kvm)
{
    struct machine_description *description = calloc(1, sizeof(*description));
    struct host_facts host;
    json_t *object;

    host_facts_read(&host);
    if (!description || machine_host_cpu(kvm, "host", description, NULL)) {
        free(description);
        return NULL;
    }
    object = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:o, s:I, s:b, s:i, s:i, s:b, s:o, s:o, s:o, s:I}", "version",
        PAGEFERRY_VERSION, "kernel", host.text[HOST_KERNEL], "kvm", host.text[HOST_KVM],
        "max_vcpus", (int)kvm->max_vcpus, "max_memslots", (int)kvm->max_memslots, "dirty_log",
        dirty_log_json(kvm), "tsc_khz", (json_int_t)description->tsc_khz, "tsc_control",
        (int)kvm->tsc_control, "clock_flags", (int)kvm->clock_flags, "cpuid_entries",
        (int)description->ncpuid, "sregs2", (int)kvm->sregs2, "transparent_hugepage",
        read_line("/sys/kernel/mm/transparent_hugepage/enabled"), "hugetlb_2m_free",
        read_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"), "io_uring_disabled",
        read_line("/proc/sys/kernel/io_uring_disabled"), "memory_bytes",
        (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE));
    free(description);
    return object;
}

static void print_text(const json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char *dump;

        if (json_is_object(value)) {
            print_text(value);
            continue;
        }
        dump = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        printf("%-22s %s\n", key, dump ? dump : json_string_value(value));
        free(dump);
    }
}

int cmd_info(int argc, char **argv)
{
    bool json = false;
    const struct option_rule rules[] = {{"json", 0, OPTION_FLAG, &json, 0},
                                        {NULL, 0, OPTION_FLAG, NULL, 0}};
    struct kvm kvm;
    struct error err;
    char **operands;
    int noperands;
    json_t *object;
    enum options_result result;

    result = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (result != OPTIONS_GO)
        return (int)result;
    if (noperands) {
        log_error("info takes no operand: '%s' is left over", operands[0]);
        return SERVER_EXIT_USAGE;
    }
    if (kvm_open(&kvm, &err)) {
        log_error("%s", err.text);
        return SERVER_EXIT_FAILURE;
    }
    object = describe(&kvm);
    kvm_close(&kvm);
    if (!object) {
        log_error("this host cannot be described");
        return SERVER_EXIT_FAILURE;
    }
    if (json) {
        char *dump = json_dumps(object, JSON_INDENT(2));

        puts(dump ? dump : "{}");
        free(dump);
    } else {
        print_text(object);
    }
    json_decref(object);
    return 0;
}
