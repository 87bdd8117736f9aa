/* SPDX-License-Identifier: MIT
 *
 * CPUID feature bits: names as QEMU and Linux spell them, masks, comparison. Internal to
 * cpuid*.c.
 *
 * Source: Intel SDM volume 2A "CPUID", AMD APM volume 3 appendix E, api.rst and
 * Documentation/virt/kvm/x86/cpuid.rst for leaf 0x40000001. */
#ifndef VMM_X86_CPUID_FEATURES_H
#define VMM_X86_CPUID_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/machine_tree.h"

enum cpuid_register {
    CPUID_EAX,
    CPUID_EBX,
    CPUID_ECX,
    CPUID_EDX,
};

/* One register whose bits are features: more bits set means that more is offered. */
struct cpuid_word {
    uint32_t function, index;
    enum cpuid_register reg;
    const char *const *names; /* 32, NULL where a bit has no name */
};

extern const struct cpuid_word cpuid_words[];
extern const size_t cpuid_nwords;

/* "name", or "leaf 7.0 ebx bit 12" where there is none. Returns buf or the name. */
const char *cpuid_feature_name(const struct cpuid_word *word, unsigned bit, char *buf,
                               size_t buf_bytes);

/* The entry of a leaf in a description, or NULL. */
struct machine_cpuid_entry *cpuid_find(struct machine_description *description, uint32_t function,
                                       uint32_t index);
const struct machine_cpuid_entry *cpuid_find_const(const struct machine_description *description,
                                                   uint32_t function, uint32_t index);
uint32_t *cpuid_register(struct machine_cpuid_entry *entry, enum cpuid_register reg);

/* Is a feature of this name offered? */
bool cpuid_has(const struct machine_description *description, const char *name);

/* Clears every bit of this name. False where no bit has it. */
bool cpuid_clear(struct machine_description *description, const char *name);

/* Clears features that cannot work without one that is not offered, XSAVE components included. */
void cpuid_clear_dependents(struct machine_description *description);

/* -ENOTSUP with everything that `wanted` has and `host` lacks. */
int cpuid_compare(const struct machine_description *wanted, const struct machine_description *host,
                  struct error *err);

#endif
