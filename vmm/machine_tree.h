/* SPDX-License-Identifier: MIT
 *
 * The machine as its device tree: what the guest can see, and nothing of the host. The same FDT
 * builds the VM, is handed to the guest, and opens a migration stream. */
#ifndef VMM_MACHINE_TREE_H
#define VMM_MACHINE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/error.h"
#include "vmm/kvm.h"

#define MACHINE_MAX_CPUS       16
#define MACHINE_TREE_MAX_BYTES (256u * 1024u)
#define MACHINE_BOOTARGS_MAX   2047
#define MACHINE_CPUID_MAX      256

/* One CPUID leaf as the guest sees it (struct kvm_cpuid_entry2, api.rst 4.20). */
struct machine_cpuid_entry {
    uint32_t function, index, flags, eax, ebx, ecx, edx;
};

/* A machine before it exists. Plain data, no ownership but its own arrays. */
struct machine_description {
    uint64_t memory_bytes; /* page-aligned, at least 2 MiB */
    bool framebuffer;      /* FRAMEBUFFER_BYTES at FRAMEBUFFER_GPA of guest/abi.h, besides RAM */
    unsigned ncpus;        /* 1…MACHINE_MAX_CPUS */
    uint16_t exit_port;
    uint64_t tsc_khz; /* guest TSC frequency; 0 = unknown */
    char bootargs[MACHINE_BOOTARGS_MAX + 1];
    unsigned ncpuid;
    struct machine_cpuid_entry cpuid[MACHINE_CPUID_MAX];
};

/* Description -> FDT. The caller frees *fdt with free(). */
int machine_tree_build(const struct machine_description *description, void **fdt, size_t *fdt_bytes,
                       struct error *err);

/* FDT (from anywhere: it is hostile until proven otherwise) -> description. -EPROTO with the node
 * and property that is missing, malformed, out of range or unknown. */
int machine_tree_parse(const void *fdt, size_t fdt_bytes, struct machine_description *description,
                       struct error *err);

#endif
