/* SPDX-License-Identifier: MIT */
#include "tools/host_facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/json_text.h"

#define UNKNOWN "unknown"

static const char *const names[HOST_NFACTS] = {
    [HOST_KERNEL] = "kernel",   [HOST_KVM] = "kvm",
    [HOST_PAGING] = "paging",   [HOST_EAGER_PAGE_SPLIT] = "eager_page_split",
    [HOST_TDP_MMU] = "tdp_mmu", [HOST_PML] = "pml",
    [HOST_THP] = "thp",         [HOST_CPU] = "cpu",
    [HOST_CLOCK] = "clock",
};

static const char *const flavours[] = {"kvm_intel", "kvm_amd", "kvm_pvm", "kvm_hv"};

void host_line(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "re");

    if (!file || !fgets(text, (int)bytes, file))
        (void)snprintf(text, bytes, UNKNOWN);
    else
        text[strcspn(text, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

/* Kernels print a bool parameter as Y and N, a few as 1 and 0. */
static void parameter(const char *module, const char *name, char *text, size_t bytes)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, name);
    host_line(path, text, bytes);
    if (strcmp(text, "Y") == 0 || strcmp(text, "1") == 0)
        (void)snprintf(text, bytes, "yes");
    if (strcmp(text, "N") == 0 || strcmp(text, "0") == 0)
        (void)snprintf(text, bytes, "no");
}

static void read_flavour(char *text, size_t bytes)
{
    (void)snprintf(text, bytes, UNKNOWN);
    for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/sys/module/%s", flavours[i]);
        if (access(path, F_OK) == 0) {
            (void)snprintf(text, bytes, "%s", flavours[i]);
            return;
        }
    }
}

static void read_paging(const char *flavour, char *text, size_t bytes)
{
    const char *nested = NULL;

    if (strcmp(flavour, "kvm_intel") == 0)
        nested = "ept";
    if (strcmp(flavour, "kvm_amd") == 0)
        nested = "npt";
    if (nested) {
        parameter(flavour, nested, text, bytes);
        if (strcmp(text, UNKNOWN) != 0)
            (void)snprintf(text, bytes, "%s", strcmp(text, "yes") == 0 ? nested : "shadow");
    } else {
        /* kvm_pvm has no nested paging to switch on. */
        (void)snprintf(text, bytes, "%s", strcmp(flavour, "kvm_pvm") == 0 ? "shadow" : UNKNOWN);
    }
}

/* Of "always [madvise] never", what is in brackets. */
static void read_thp(char *text, size_t bytes)
{
    char *begin;

    host_line("/sys/kernel/mm/transparent_hugepage/enabled", text, bytes);
    begin = strchr(text, '[');
    if (begin) {
        size_t length = strcspn(begin + 1, "]");

        memmove(text, begin + 1, length);
        text[length] = '\0';
    }
}

static void read_cpu(char *text, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    long ncpus = sysconf(_SC_NPROCESSORS_ONLN);
    char line[256];
    char model[96] = UNKNOWN;

    while (file && fgets(line, sizeof(line), file)) {
        const char *value = strchr(line, ':');

        if (value && strncmp(line, "model name", strlen("model name")) == 0) {
            (void)snprintf(model, sizeof(model), "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
            break;
        }
    }
    if (file)
        (void)fclose(file);
    (void)snprintf(text, bytes, "%ld x %s", ncpus, model);
}

void host_facts_read(struct host_facts *facts)
{
    char(*text)[HOST_FACT_BYTES] = facts->text;
    struct utsname host;

    (void)snprintf(text[HOST_KERNEL], HOST_FACT_BYTES, "%s",
                   uname(&host) == 0 ? host.release : UNKNOWN);
    read_flavour(text[HOST_KVM], HOST_FACT_BYTES);
    read_paging(text[HOST_KVM], text[HOST_PAGING], HOST_FACT_BYTES);
    parameter("kvm", "eager_page_split", text[HOST_EAGER_PAGE_SPLIT], HOST_FACT_BYTES);
    parameter("kvm", "tdp_mmu", text[HOST_TDP_MMU], HOST_FACT_BYTES);
    parameter("kvm_intel", "pml", text[HOST_PML], HOST_FACT_BYTES);
    if (strcmp(text[HOST_KVM], "kvm_intel") != 0)
        (void)snprintf(text[HOST_PML], HOST_FACT_BYTES, "no");
    read_thp(text[HOST_THP], HOST_FACT_BYTES);
    read_cpu(text[HOST_CPU], HOST_FACT_BYTES);
    host_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", text[HOST_CLOCK],
              HOST_FACT_BYTES);
}

json_t *host_facts_json(const struct host_facts *facts)
{
    json_t *object = json_object();

    for (unsigned i = 0; object && i < HOST_NFACTS; i++)
        (void)json_object_set_new(object, names[i], json_text(facts->text[i]));
    return object;
}

void host_facts_print(const struct host_facts *facts, char *text, size_t bytes)
{
    const char(*fact)[HOST_FACT_BYTES] = facts->text;

    (void)snprintf(text, bytes,
                   "host: Linux %s, %s (%s), %s, clock %s\n"
                   "      eager_page_split %s, tdp_mmu %s, pml %s, thp %s\n",
                   fact[HOST_KERNEL], fact[HOST_KVM], fact[HOST_PAGING], fact[HOST_CPU],
                   fact[HOST_CLOCK], fact[HOST_EAGER_PAGE_SPLIT], fact[HOST_TDP_MMU],
                   fact[HOST_PML], fact[HOST_THP]);
}
