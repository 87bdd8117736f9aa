/* SPDX-License-Identifier: MIT
 *
 * What a measurement or a verdict depends on besides the program: kernel, KVM and its paging mode,
 * CPU, clock. Text as the host's sysfs and procfs have it; "unknown" where they do not say. */
#ifndef TOOLS_HOST_FACTS_H
#define TOOLS_HOST_FACTS_H

#include <stddef.h>

#include <jansson.h>

enum host_fact {
    HOST_KERNEL,           /* release */
    HOST_KVM,              /* the module: kvm_intel, kvm_amd, kvm_pvm, kvm_hv */
    HOST_PAGING,           /* ept, npt or shadow */
    HOST_EAGER_PAGE_SPLIT, /* huge pages are split when logging begins, not by faults */
    HOST_TDP_MMU,          /* the newer MMU of ept and npt */
    HOST_PML,              /* Intel's page modification log */
    HOST_THP,              /* transparent huge pages: always, madvise or never */
    HOST_CPU,              /* model, and how many are online */
    HOST_CLOCK,            /* clock source */
};

#define HOST_NFACTS     9
#define HOST_FACT_BYTES 128

struct host_facts {
    char text[HOST_NFACTS][HOST_FACT_BYTES];
};

void host_facts_read(struct host_facts *facts);

/* An object of all facts; NULL without memory. */
json_t *host_facts_json(const struct host_facts *facts);

/* Two lines for people, each with its newline, into text. */
void host_facts_print(const struct host_facts *facts, char *text, size_t bytes);

/* First line of a sysfs or procfs file without its newline, or "unknown". */
void host_line(const char *path, char *text, size_t bytes);

#endif
